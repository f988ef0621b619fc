"""Answers of a vendor's library: kept in a file, and played from one.

The library itself is asked by the vendor's module. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from runner.gpus.vendor import GpuError


class Library(Protocol):
    """Something that answers a library's functions by their names."""

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer. Raises GpuError."""


class Recorded:
    """Answers from a file, which is read again at each call of `start`.

    A handle is the mapping of its device. A call with further arguments has the key
    "function(1,0)"; a call without an answer raises NotSupported.
    """

    start = stop = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: Mapping[str, Any] = {}

    def ask(self, function: str, *arguments: Any) -> Any:
        if function == self.start:
            self.answers = json.loads(self.path.read_text())
        table: Mapping[str, Any] = self.answers
        if arguments and isinstance(arguments[0], dict):
            table, arguments = arguments[0], arguments[1:]
        key = key_of(function, arguments)
        quiet = function in (self.start, self.stop)
        answer = table.get(key, None if quiet else {"error": "NotSupported"})
        if isinstance(answer, dict) and "error" in answer:
            raise GpuError(answer["error"])
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
