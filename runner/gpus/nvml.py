"""NVML backends: the driver through pynvml, or a file of recorded answers.

Standard library and pynvml (nvidia-ml-py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

try:
    import pynvml
except ImportError:  # A machine with torch and a checkout need not have it.
    pynvml = None


class NvmlError(Exception):
    """NVML could not answer; `name` as NVML calls it, such as "NotSupported"."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Nvml(Protocol):
    """Something that answers NVML's functions by their C names."""

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer. Raises NvmlError."""


class Live:
    """The driver's own answers, through pynvml."""

    def ask(self, function: str, *arguments: Any) -> Any:
        if pynvml is None:
            raise NvmlError("BindingsNotInstalled")
        call = getattr(pynvml, function, None)
        if call is None:
            raise NvmlError("FunctionNotFound")
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            name = type(error).__name__
            short = name.removeprefix("NVMLError_")
            number = getattr(error, "value", "?")
            raise NvmlError(short if short != name else f"Error{number}") from error


class Recorded:
    """Answers from a file, which is read again at each nvmlInit.

    A handle is the mapping of its device. A call with further arguments has the key
    "function(1,0)"; a call without an answer raises NotSupported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: Mapping[str, Any] = {}

    def ask(self, function: str, *arguments: Any) -> Any:
        if function == "nvmlInit":
            self.answers = json.loads(self.path.read_text())
        table: Mapping[str, Any] = self.answers
        if arguments and isinstance(arguments[0], dict):
            table, arguments = arguments[0], arguments[1:]
        if function == "nvmlDeviceGetCount":
            return len(self.answers.get("devices", []))
        if function == "nvmlDeviceGetHandleByIndex":
            return self.answers["devices"][arguments[0]]
        if function == "nvmlDeviceGetMigDeviceHandleByIndex":
            instances = table.get("mig", [])
            if arguments[0] >= len(instances):
                raise NvmlError("NotFound")
            return instances[arguments[0]]
        key = f"{function}({','.join(map(str, arguments))})" if arguments else function
        quiet = function in ("nvmlInit", "nvmlShutdown")
        answer = table.get(key, None if quiet else {"error": "NotSupported"})
        if isinstance(answer, dict) and "error" in answer:
            raise NvmlError(answer["error"])
        return as_structure(answer)


def as_structure(answer: Any) -> Any:
    """JSON as pynvml returns it: objects become structures with attributes."""
    if isinstance(answer, dict):
        return SimpleNamespace(**answer)
    if isinstance(answer, list):
        return [as_structure(item) for item in answer]
    return answer


def open_nvml(answers: str = "") -> Nvml:
    """The driver, or the file of recorded answers that is named."""
    return Recorded(Path(answers)) if answers else Live()


class Recorder:
    """Forwards calls to a backend and keeps the answers in the form of `Recorded`."""

    def __init__(self, nvml: Nvml) -> None:
        self.nvml = nvml
        self.answers: dict[str, Any] = {"about": "recorded", "devices": []}
        self.tables: dict[int, dict[str, Any]] = {}
        self.kept: list[Any] = []  # handles: an id is theirs only while they live

    def ask(self, function: str, *arguments: Any) -> Any:
        table, rest = self.answers, arguments
        if arguments and id(arguments[0]) in self.tables:
            table, rest = self.tables[id(arguments[0])], arguments[1:]
        key = f"{function}({','.join(map(str, rest))})" if rest else function
        try:
            answer = self.nvml.ask(function, *arguments)
        except NvmlError as error:
            if "HandleByIndex" not in function:
                table[key] = {"error": error.name}
            raise
        if "HandleByIndex" in function:
            place = "mig" if "Mig" in function else "devices"
            self.kept.append(answer)
            self.tables[id(answer)] = {}
            table.setdefault(place, []).append(self.tables[id(answer)])
        elif function not in ("nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount"):
            table[key] = as_json(answer)
        return answer


def as_json(answer: Any) -> Any:
    if isinstance(answer, (list, tuple)):
        return [as_json(item) for item in answer]
    names = [name for name, *_ in getattr(answer, "_fields_", [])]
    names = names or list(getattr(answer, "__dict__", {}))
    return {name: getattr(answer, name) for name in names} if names else answer
