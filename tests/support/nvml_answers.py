"""Answers of NVML: played from a file, and kept in one.

python -m tests.support.nvml_answers > tests/nvml/NAME.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from runner.gpus import devices, nvml
from runner.gpus.nvml import GpuError, Library


class Recorded:
    """Answers from a file, which is read again at each call of `nvmlInit`.

    A handle is the mapping of its device. A call with further arguments has the key
    "function(1,0)"; a call without an answer raises NotSupported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: Mapping[str, Any] = {}

    def ask(self, function: str, *arguments: Any) -> Any:
        if function == "nvmlInit":
            self.answers = json.loads(self.path.read_text())
        if function == "nvmlDeviceGetCount":
            return len(self.answers.get("devices", []))
        if function == "nvmlDeviceGetHandleByIndex":
            return self.answers["devices"][arguments[0]]
        if function == "nvmlDeviceGetMigDeviceHandleByIndex":
            instances = arguments[0].get("mig", [])
            if arguments[1] >= len(instances):
                raise GpuError("NotFound")
            return instances[arguments[1]]
        table: Mapping[str, Any] = self.answers
        if arguments and isinstance(arguments[0], dict):
            table, arguments = arguments[0], arguments[1:]
        quiet = function in ("nvmlInit", "nvmlShutdown")
        missing = None if quiet else {"error": "NotSupported"}
        answer = table.get(key_of(function, arguments), missing)
        if isinstance(answer, dict) and "error" in answer:
            raise GpuError(answer["error"])
        return as_structure(answer)


class Recorder:
    """Forwards calls to a library and keeps its answers as `Recorded` has them."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.answers: dict[str, Any] = {"about": "recorded", "devices": []}
        self.tables: dict[int, dict[str, Any]] = {}
        self.kept: list[Any] = []  # handles: an id is theirs only while they live

    def ask(self, function: str, *arguments: Any) -> Any:
        table, rest = self.answers, arguments
        if arguments and id(arguments[0]) in self.tables:
            table, rest = self.tables[id(arguments[0])], arguments[1:]
        key = key_of(function, rest)
        try:
            answer = self.library.ask(function, *arguments)
        except GpuError as error:
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


def key_of(function: str, arguments: tuple[Any, ...]) -> str:
    return f"{function}({','.join(map(str, arguments))})" if arguments else function


def as_structure(answer: Any) -> Any:
    """JSON as C bindings return it: objects become structures with attributes."""
    if isinstance(answer, dict):
        return SimpleNamespace(**answer)
    if isinstance(answer, list):
        return [as_structure(item) for item in answer]
    return answer


def as_json(answer: Any) -> Any:
    if isinstance(answer, (list, tuple)):
        return [as_json(item) for item in answer]
    names = [name for name, *_ in getattr(answer, "_fields_", [])]
    names = names or list(getattr(answer, "__dict__", {}))
    return {name: getattr(answer, name) for name in names} if names else answer


if __name__ == "__main__":
    recorder = Recorder(nvml.Live())
    devices.snapshot(nvml.Nvidia(recorder))
    sys.stdout.write(json.dumps(recorder.answers, indent=1) + "\n")
