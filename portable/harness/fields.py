"""The header of a repro as a value, and the checks of its single fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple


class ContractError(ValueError):
    """A repro that does not keep the contract. `errors`: every problem found."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(self.errors))


@dataclass(frozen=True)
class Header:
    """What a repro declares in `[tool.doesitnan]`."""

    fidelity: str
    device: str
    bug: Tuple[str, ...]
    record: Optional[str] = None
    any_device: bool = False
    min_capability: str = ""
    min_memory_gib: float = 0
    min_devices: int = 1
    needs: Tuple[str, ...] = ()
    stack: Dict[str, str] = field(default_factory=dict)
    match: Dict[str, float] = field(default_factory=dict)
    match_waived: str = ""
    expect: Dict[str, Any] = field(default_factory=dict)
    trials: int = 1
    timeout_s: float = 60
    memory_mib: int = 2048
    env: Dict[str, Dict[str, str]] = field(default_factory=dict)
    parameters: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    bounds: Dict[str, str] = field(default_factory=dict)
    variants: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    dependencies: Tuple[str, ...] = ()
    requires_python: str = ""


REQUIRED = object()
NAME = re.compile(r"[a-z][a-z0-9_]*\Z")

_DEPENDENCY = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:(\S.*?))?\s*\Z"
)
_LOWER_BOUND = re.compile(r">=\s*([0-9]+(?:\.[0-9]+)*)\Z")
# The driver gives every check its own folders and interpreter.
_RESERVED_ENV = ("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONPATH", "PYTHONHOME")


class Fields:
    """Takes keys out of one table, checks them, collects every problem."""

    def __init__(self, table: Mapping[str, Any], where: str, errors: List[str]) -> None:
        self.rest = dict(table)
        self.where = where
        self.errors = errors

    def take(self, key: str, check: Callable[[Any], Any], default: Any) -> Any:
        if key not in self.rest:
            if default is REQUIRED:
                self.errors.append("%s%s: missing" % (self.where, key))
            return default
        try:
            return check(self.rest.pop(key))
        except ValueError as error:
            self.errors.append("%s%s: %s" % (self.where, key, error))
            return default

    def refuse_rest(self) -> None:
        self.errors.extend("%s%s: unknown key" % (self.where, key) for key in self.rest)


def as_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    return value


def as_table(value: Any) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError("must be one of %s" % ", ".join(words))
        return str(value)

    return check


def matching(pattern: str, form: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.match(pattern + r"\Z", value):
            raise ValueError("must look like %s" % form)
        return value

    return check


def number_in(low: float, high: float) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not is_number(value) or not low <= value <= high:
            raise ValueError("must be a number from %g to %g" % (low, high))
        return value

    return check


def integer_in(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("must be an integer")
        if not low <= value <= high:
            raise ValueError("must be from %d to %d" % (low, high))
        return value

    return check


def list_of(check: Callable[[Any], Any]) -> Callable[[Any], Tuple[Any, ...]]:
    def check_list(value: Any) -> Tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        return tuple(check(item) for item in value)

    return check_list


def table_of(key: str, check: Callable[[Any], Any]) -> Callable[[Any], Dict[str, Any]]:
    def check_table(value: Any) -> Dict[str, Any]:
        for name in as_table(value):
            if not re.match(key + r"\Z", name):
                raise ValueError("%r is not a valid name here" % name)
        return {name: check(item) for name, item in value.items()}

    return check_table


def as_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def as_scalar(value: Any) -> Any:
    if not isinstance(value, (str, bool, int, float)):
        raise ValueError("must be a text, a number or a boolean")
    return value


def as_environment(value: Any) -> Dict[str, str]:
    for name, text in table_of("[A-Za-z_][A-Za-z0-9_]*", as_string)(value).items():
        if name in _RESERVED_ENV or name.startswith("LD_") or "\0" in text:
            raise ValueError("%s is set by the driver" % name)
    return dict(value)


def as_string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def as_lower_bound(value: Any) -> str:
    if not _LOWER_BOUND.match(as_text(value)):
        raise ValueError('only a lower bound such as ">=3.9" may stand here')
    return str(value)


def as_dependency(value: Any) -> str:
    parse_dependency(as_text(value))
    return str(value)


def parse_dependency(source: str) -> Tuple[str, Tuple[int, ...]]:
    """Distribution name and the lowest release it may have; () = any.

    >>> parse_dependency("torch>=2.0")
    ('torch', (2, 0))
    """
    found = _DEPENDENCY.match(source)
    name, bound = found.groups() if found else ("", "?")
    if not bound:
        return name.lower(), ()
    lower = _LOWER_BOUND.match(bound)
    if not lower:
        raise ValueError("%r: only lower bounds such as torch>=2.0 may stand" % source)
    return name.lower(), release(lower.group(1))


def release(version: str) -> Tuple[int, ...]:
    """The release numbers a version begins with: 2.6.0a0+df5bbc.nv24.12 is (2, 6, 0).

    Development builds count as the release they lead to; () where there is none.
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def same_kind(value: Any, literal: Any) -> bool:
    if is_number(literal):
        return is_number(value)
    return type(value) is type(literal)
