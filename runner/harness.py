#!/usr/bin/env python3
"""Runs the checks of a repro, each in a fresh process, and judges what they report.

    python harness.py REPRO.py [--set NAME=VALUE …] [--json [FILE]] [--trials N]
                               [--python PATH]

The child observes, the parent judges: a check returns observations over a private
channel; requirements, predicate and verdict are decided here, from the header of the
repro. No evidence, no verdict: bug_absent needs a control that is clean and a detector
that fires.

One file, standard library only, syntax of Python 3.8, because it also travels alone to
machines that have nothing but torch. Only the child imports torch.

Exit status: 0 bug_absent, 1 bug_present, 125 not_applicable, 2 anything else.
"""

from __future__ import annotations

import argparse
import ast
import codecs
import collections
import contextlib
import copy
import ctypes
import dataclasses
import datetime
import decimal
import faulthandler
import functools
import hashlib
import importlib
import json
import math
import os
import platform
import re
import resource
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from dataclasses import dataclass, field
from itertools import repeat
from typing import (
    Any,
    Callable,
    ContextManager,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Protocol,
    Sequence,
    Tuple,
)

try:
    import importlib.metadata
except ImportError:  # A traceback would end with 1, which means bug_present.
    sys.stderr.write("harness.py: needs Python 3.8 or newer\n")
    sys.exit(2)

PROTOCOL = 1
SCHEMA = "doesitnan.evidence/1"

VERDICTS = ("bug_present", "bug_absent", "not_applicable", "inconclusive", "error")
EXIT_CODES = {
    "bug_absent": 0,
    "bug_present": 1,
    "error": 2,
    "inconclusive": 2,
    "not_applicable": 125,
}
FIDELITIES = ("upstream_bug", "real_kernel", "mechanism_model")
DEVICES = ("cpu", "cuda")
NEEDS = ("compiler", "loader", "loopback")

MIB = 1024 * 1024
CHANNEL_BYTES = 256 * 1024
OUTPUT_BYTES = 16 * MIB
LOG_KEEP_BYTES = 64 * 1024
LOG_LINE_CHARS = 4096
LINE_COST_BYTES = 15
PROBE_TIMEOUT_S = 120.0

Observations = Dict[str, Any]


# ---------------------------------------------------------------------------
# Contract: the header (PEP 723) and the checks of a repro
# ---------------------------------------------------------------------------


class ContractError(ValueError):
    """A repro that does not keep the contract. `errors`: every problem found."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(self.errors))


@dataclass(frozen=True)
class Header:
    """What a repro says of itself in `[tool.doesitnan]`."""

    fidelity: str
    device: str
    bug: Tuple[str, ...]
    record: Optional[str] = None
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


class TomlError(ValueError):
    """A header that is not TOML, or not of the subset read here."""


MOST_DIGITS = 100  # Python refuses to read more than 4,300, with another error

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DIGITS = r"[+-]?(?:0|[1-9](?:_?[0-9])*)"
_MORE = r"[0-9](?:_?[0-9])*"
_VALUE = re.compile(
    r'(?P<basic>"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\.)*")'
    r"|(?P<literal>'[^'\x00-\x08\x0a-\x1f\x7f]*')"
    r"|(?:(?P<boolean>true|false)"
    rf"|(?P<float>{_DIGITS}(?:\.{_MORE}(?:[eE][+-]?{_MORE})?|[eE][+-]?{_MORE})"
    r"|[+-]?(?:inf|nan))"
    rf"|(?P<integer>{_DIGITS}))(?![\w.:+-])"
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


class _Toml:
    """Parser of the TOML that headers use; the same under every Python.

    Tables, bare and quoted keys, one-line strings, integers, floats, booleans, arrays
    (over several lines too) and inline tables. Dates, dotted keys, arrays of tables and
    multi-line strings are refused.
    """

    DEEPEST = 8

    def __init__(self, text: str, first_line: int = 1) -> None:
        self.text = text
        self.first_line = first_line
        self.at = 0

    def parse(self) -> Dict[str, Any]:
        root: Dict[str, Any] = {}
        table = root
        self.skip(lines=True)
        while self.at < len(self.text):
            if self.peek("["):
                table = self.table_header(root)
            else:
                self.pair(table)
            self.skip()
            if self.at < len(self.text) and not self.peek("\n"):
                raise self.error("expected the end of the line")
            self.skip(lines=True)
        return root

    def error(self, message: str) -> TomlError:
        line = self.first_line + self.text.count("\n", 0, self.at)
        return TomlError("line %d: %s" % (line, message))

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def accept(self, token: str) -> bool:
        found = self.peek(token)
        self.at += len(token) * found
        return found

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error("expected %r" % token)

    def skip(self, lines: bool = False) -> None:
        """Pass over blanks and comments; `lines`: over ends of lines too."""
        pattern = r"(?:[ \t\n]|#[^\n]*)*" if lines else r"[ \t]*(?:#[^\n]*)?"
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at

    def nest(self, depth: int) -> int:
        """One level deeper; headers need two or three."""
        if depth >= self.DEEPEST:
            raise self.error("nested deeper than %d levels" % self.DEEPEST)
        return depth + 1

    def table_header(self, root: Dict[str, Any]) -> Dict[str, Any]:
        self.expect("[")
        if self.peek("["):
            raise self.error("arrays of tables are not read here")
        table, is_new = root, False
        while True:
            self.skip()
            key = self.key()
            is_new = key not in table
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise self.error("%s is not a table" % key)
            self.skip()
            if self.accept("]"):
                break
            self.expect(".")
        if not is_new:
            raise self.error("this table stands twice")
        return table

    def pair(self, table: Dict[str, Any], depth: int = 0) -> None:
        key = self.key()
        self.skip()
        if self.peek("."):
            raise self.error("dotted keys are not read here: write an inline table")
        self.expect("=")
        self.skip()
        if key in table:
            raise self.error("%s stands twice" % key)
        table[key] = self.value(depth)

    def key(self) -> str:
        if self.peek('"') or self.peek("'"):
            return str(self.value())
        found = _BARE_KEY.match(self.text, self.at)
        if not found:
            raise self.error("expected a key")
        self.at = found.end()
        return found.group()

    def value(self, depth: int = 0) -> Any:
        if self.peek("["):
            return self.array(self.nest(depth))
        if self.peek("{"):
            return self.inline_table(self.nest(depth))
        found = _VALUE.match(self.text, self.at)
        if not found:
            raise self.error("expected a value: text, number, boolean, list or table")
        text = found.group()
        value: Any = text == "true"
        if found.lastgroup == "basic":
            value = _ESCAPE.sub(self.unescape, text[1:-1])
        elif found.lastgroup == "literal":
            value = text[1:-1]
        elif found.lastgroup == "float":
            value = float(text.replace("_", ""))
        elif found.lastgroup == "integer":
            if len(text) > MOST_DIGITS:
                raise self.error("a number of more than %d digits" % MOST_DIGITS)
            value = int(text.replace("_", ""))
        self.at = found.end()
        return value

    def unescape(self, found: "re.Match[str]") -> str:
        code = found.group(1)
        if code in _ESCAPES:
            return _ESCAPES[code]
        number = int(code[1:], 16) if len(code) > 1 else -1
        if not 0 <= number <= 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise self.error("unknown escape \\%s in a text" % code)
        return chr(number)

    def array(self, depth: int) -> List[Any]:
        self.expect("[")
        items: List[Any] = []
        self.skip(lines=True)
        while not self.accept("]"):
            items.append(self.value(depth))
            self.skip(lines=True)
            if not self.peek("]"):
                self.expect(",")
                self.skip(lines=True)
        return items

    def inline_table(self, depth: int) -> Dict[str, Any]:
        self.expect("{")
        table: Dict[str, Any] = {}
        self.skip()
        if self.accept("}"):
            return table
        while True:
            self.skip()
            self.pair(table, depth)
            self.skip()
            if self.accept("}"):
                return table
            self.expect(",")


_REQUIRED = object()
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_PREDICATE = re.compile(
    r"\s*([a-z][a-z0-9_]*)\s*(?:(==|!=|<=|>=|<|>)\s*(\S.*?)|\s(is_nonfinite))\s*\Z"
)
_DEPENDENCY = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:(\S.*?))?\s*\Z"
)
_LOWER_BOUND = re.compile(r">=\s*([0-9]+(?:\.[0-9]+)*)\Z")
# The driver gives every check its own folders and interpreter.
_RESERVED_ENV = ("PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "PYTHONPATH", "PYTHONHOME")


class _Fields:
    """Takes keys out of one table, checks them, collects every problem."""

    def __init__(self, table: Mapping[str, Any], where: str, errors: List[str]) -> None:
        self.rest = dict(table)
        self.where = where
        self.errors = errors

    def take(self, key: str, check: Callable[[Any], Any], default: Any) -> Any:
        if key not in self.rest:
            if default is _REQUIRED:
                self.errors.append("%s%s: missing" % (self.where, key))
            return default
        try:
            return check(self.rest.pop(key))
        except ValueError as error:
            self.errors.append("%s%s: %s" % (self.where, key, error))
            return default

    def refuse_rest(self) -> None:
        self.errors.extend("%s%s: unknown key" % (self.where, key) for key in self.rest)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    return value


def _table(value: Any) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError("must be one of %s" % ", ".join(words))
        return str(value)

    return check


def _matching(pattern: str, form: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.match(pattern + r"\Z", value):
            raise ValueError("must look like %s" % form)
        return value

    return check


def _number(low: float, high: float) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not _is_number(value) or not low <= value <= high:
            raise ValueError("must be a number from %g to %g" % (low, high))
        return value

    return check


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("must be an integer")
        if not low <= value <= high:
            raise ValueError("must be from %d to %d" % (low, high))
        return value

    return check


def _each(check: Callable[[Any], Any]) -> Callable[[Any], Tuple[Any, ...]]:
    def check_list(value: Any) -> Tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        return tuple(check(item) for item in value)

    return check_list


def _values(key: str, check: Callable[[Any], Any]) -> Callable[[Any], Dict[str, Any]]:
    def check_table(value: Any) -> Dict[str, Any]:
        for name in _table(value):
            if not re.match(key + r"\Z", name):
                raise ValueError("%r is not a valid name here" % name)
        return {name: check(item) for name, item in value.items()}

    return check_table


def _predicates(value: Any) -> Tuple[str, ...]:
    sources = value if isinstance(value, list) else [value]
    if not sources:
        raise ValueError("must not be empty")
    for source in sources:
        parse_predicate(_text(source))
    return tuple(sources)


def _scalar(value: Any) -> Any:
    if not isinstance(value, (str, bool, int, float)):
        raise ValueError("must be a text, a number or a boolean")
    return value


def _environment(value: Any) -> Dict[str, str]:
    for name, text in _values("[A-Za-z_][A-Za-z0-9_]*", _string)(value).items():
        if name in _RESERVED_ENV or name.startswith("LD_") or "\0" in text:
            raise ValueError("%s is set by the driver" % name)
    return dict(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _lower_bound(value: Any) -> str:
    if not _LOWER_BOUND.match(_text(value)):
        raise ValueError('only a lower bound such as ">=3.9" may stand here')
    return str(value)


def _dependency(value: Any) -> str:
    parse_dependency(_text(value))
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


def _header_block(source: str) -> Tuple[str, int]:
    """The comment block of PEP 723 without its marks, and its first line's number."""
    lines = [line.rstrip("\r") for line in source.split("\n")]
    starts = [i for i, line in enumerate(lines) if line.rstrip() == "# /// script"]
    if len(starts) != 1:
        raise ContractError(["header: one block '# /// script' … '# ///' must stand"])
    first = end = starts[0] + 1
    while end < len(lines) and re.match(r"#(?: |$)", lines[end]):
        end += 1
    closing = [i for i in range(first, end) if lines[i].rstrip() == "# ///"]
    if not closing:
        raise ContractError(["line %d: the header has no closing '# ///'" % end])
    block = [line[2:] for line in lines[first : closing[-1]]]
    return "\n".join(block), first + 1


def parse_header(source: str) -> Header:
    """The header of a repro. Raises ContractError with every problem found."""
    text, first_line = _header_block(source)
    try:
        table = _Toml(text, first_line).parse()
    except TomlError as error:
        raise ContractError([str(error)]) from None
    errors: List[str] = []
    top = _Fields(table, "", errors)
    python = top.take("requires-python", _lower_bound, "")
    dependencies = top.take("dependencies", _each(_dependency), ())
    tool = _Fields(top.take("tool", _table, {}), "tool.", errors)
    own = tool.take("doesitnan", _table, _REQUIRED)
    tool.refuse_rest()
    top.refuse_rest()
    values = {} if own is _REQUIRED else _own_fields(own, errors)
    if errors:
        raise ContractError(errors)
    return Header(dependencies=dependencies, requires_python=python, **values)


def _own_fields(table: Dict[str, Any], errors: List[str]) -> Dict[str, Any]:
    own = _Fields(table, "tool.doesitnan.", errors)
    values = {
        "record": own.take("record", _matching(r"NAN-\d{4,}", "NAN-0002"), None),
        "fidelity": own.take("fidelity", _one_of(*FIDELITIES), _REQUIRED),
        "device": own.take("device", _one_of(*DEVICES), _REQUIRED),
        "min_capability": own.take("min_capability", _matching(r"\d+\.\d+", "9.0"), ""),
        "min_memory_gib": own.take("min_memory_gib", _number(0, 100_000), 0),
        "min_devices": own.take("min_devices", _integer(1, 1024), 1),
        "needs": own.take("needs", _each(_one_of(*NEEDS)), ()),
        "stack": own.take("stack", _values(r"[A-Za-z_][A-Za-z0-9_.]*", _string), {}),
        "bug": own.take("bug", _predicates, _REQUIRED),
        "match": own.take("match", _values(_NAME.pattern, _number(0, 1)), {}),
        "match_waived": own.take("match_waived", _text, ""),
        "expect": own.take("expect", _values(_NAME.pattern, _scalar), {}),
        "trials": own.take("trials", _integer(1, 100), 1),
        "timeout_s": own.take("timeout_s", _number(1, 3600), 60),
        "memory_mib": own.take("memory_mib", _integer(64, 1024 * 1024), 2048),
        "env": own.take("env", _values(_NAME.pattern, _environment), {}),
        "parameters": own.take("parameters", _parameters, {}),
        "bounds": own.take("bounds", _values("memory_mib|time_s", _formula), {}),
        "variants": own.take("variants", _values("[a-z0-9_]{1,11}", _table), {}),
    }
    own.refuse_rest()
    errors.extend(_parameter_errors(values))
    if values["match"] and values["match_waived"]:
        errors.append("tool.doesitnan.match: stands beside match_waived; keep one")
    if values["device"] == "cpu":
        errors.extend(
            "tool.doesitnan.%s: only where device is cuda" % key
            for key in ("min_capability", "min_memory_gib", "min_devices")
            if key in table
        )
    return values


# ---------------------------------------------------------------------------
# Parameters: values that a run may choose; the defaults are what was reviewed
# ---------------------------------------------------------------------------

MOST_PARAMETERS = 8
MOST_CHOICES = 16
MOST_VARIANTS = 8
LONGEST_VALUE = 40

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,39}\Z")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?\Z")
_FACTOR = r"(?:[a-z][a-z0-9_]*|[0-9]+(?:\.[0-9]+)?)"
_PRODUCT = r"%s(?:\s*[*/]\s*%s)*" % (_FACTOR, _FACTOR)
_FORMULA = re.compile(r"\s*%s(?:\s*\+\s*%s)*\s*\Z" % (_PRODUCT, _PRODUCT))
_STEP = re.compile(r"([*/]?)\s*(%s)" % _FACTOR)

# What is wrong with a value that was given, by code; the site has them in Chinese too.
PARAMETER_TEXTS = {
    "unknown": "no parameter of this repro has that name",
    "choice": "must be one of %(choices)s",
    "whole": "must be a whole number from %(min)s to %(max)s",
    "number": "must be a number from %(min)s to %(max)s",
    "memory_mib": "such a run would take some %(needed)s MiB of memory, and its "
    "limit is %(limit)s MiB",
    "time_s": "such a check would take some %(needed)s s, and its limit is %(limit)s s",
    "axis": "a sweep takes values (64,128), START:STOP:STEP, START:STOP:xFACTOR or "
    "START..STOP",
    "step": "the step must be a number above 0, or x and a number above 1",
    "order": "the range must start below its end",
    "twice": "a value stands twice",
}


class ParameterError(ContractError):
    """Values that a repro does not allow.

    `problems`: (parameter, code of PARAMETER_TEXTS, what its text names) each.
    """

    def __init__(self, problems: Sequence[Tuple[str, str, Dict[str, str]]]) -> None:
        self.problems = list(problems)
        super().__init__(
            [
                "%s: %s" % (name, PARAMETER_TEXTS[code] % facts)
                for name, code, facts in problems
            ]
        )


def _parameters(value: Any) -> Dict[str, Dict[str, Any]]:
    if len(_table(value)) > MOST_PARAMETERS:
        raise ValueError("more than %d parameters" % MOST_PARAMETERS)
    return _values(_NAME.pattern, _parameter)(value)


def _parameter(value: Any) -> Dict[str, Any]:
    """A declaration in its full form: choices, or min and max; default; unit."""
    table = {"choices": value} if isinstance(value, list) else dict(_table(value))
    unknown = sorted(table.keys() - {"choices", "min", "max", "default", "unit"})
    if unknown:
        raise ValueError("unknown key %s" % ", ".join(unknown))
    unit = {"unit": _text(table["unit"])} if "unit" in table else {}
    if "choices" in table:
        choices = _choices(table["choices"])
        default = table.get("default", choices[0])
        found = {"choices": choices, "default": default}
    else:
        if not {"min", "max", "default"} <= table.keys():
            raise ValueError("needs a list of choices, or min, max and default")
        found = {key: table[key] for key in ("min", "max", "default")}
        if not all(map(_is_bounded, found.values())):
            raise ValueError("min, max and default must be numbers within 10^12")
    if _refused(found, found["default"]):
        raise ValueError("its own default is not allowed")
    return dict(found, **unit)


def _choices(value: Any) -> List[Any]:
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_CHOICES:
        raise ValueError("from 2 to %d choices may stand" % MOST_CHOICES)
    kinds = {type(item) for item in value}
    if len(kinds) > 1 or kinds & {list, dict}:
        raise ValueError("the choices must be of one type")
    for item in value:
        word = item if isinstance(item, str) else str(item)
        if not _WORD.match(word.lstrip("-")) or (
            _is_number(item) and not _is_bounded(item)
        ):
            raise ValueError("%r cannot be a choice" % (item,))
    if len(set(value)) < len(value):
        raise ValueError("a choice stands twice")
    return list(value)


def _is_bounded(value: Any) -> bool:
    return _is_number(value) and abs(value) <= 10**12


def _formula(value: Any) -> str:
    """A sum of products of numbers and parameters: `40 + batch * length / 1024`."""
    if not isinstance(value, str) or not _FORMULA.match(value):
        raise ValueError("must be a sum of products of numbers and parameters")
    return value


def _parameter_errors(values: Mapping[str, Any]) -> Iterator[str]:
    """Bounds and variants that do not fit the parameters."""
    where = "tool.doesitnan."
    parameters, bounds = values["parameters"], values["bounds"]
    unknown = False
    for key, formula in bounds.items():
        for name in re.findall(r"[a-z][a-z0-9_]*", formula):
            if not _is_number(parameters.get(name, {}).get("default")):
                unknown = True
                yield "%sbounds.%s: %s is no number's parameter" % (where, key, name)
    if unknown:
        return
    if len(values["variants"]) > MOST_VARIANTS:
        yield "%svariants: more than %d" % (where, MOST_VARIANTS)
    rows = [
        ("bounds", {}),
        *(("variants." + n, v) for n, v in values["variants"].items()),
    ]
    for row, given in rows:
        try:
            chosen = _chosen(values, given)
        except ParameterError as error:
            yield "%s%s: %s" % (where, row, "; ".join(error.errors))
            continue
        if len(chosen) != len(given) or (row != "bounds" and not given):
            yield "%s%s: must name other values than the defaults" % (where, row)


def choose(header: Header, given: Mapping[str, Any]) -> Dict[str, Any]:
    """Those of the given values that are not the defaults, in the header's order.

    Checked against the declaration and never evaluated. Raises ParameterError, which
    names every parameter with something wrong.
    """
    return _chosen(dataclasses.asdict(header), given)


def _chosen(header: Mapping[str, Any], given: Mapping[str, Any]) -> Dict[str, Any]:
    declared = header["parameters"]
    problems: List[Tuple[str, str, Dict[str, str]]] = [
        (shown_value(name), "unknown", {}) for name in given if name not in declared
    ]
    for name, parameter in declared.items():
        if name in given:
            code = _refused(parameter, given[name])
            if code:
                problems.append((name, code, _allowed(parameter)))
    if problems:
        raise ParameterError(problems)
    typed = {name: _typed(declared[name], value) for name, value in given.items()}
    values = dict(defaults_of(declared), **typed)
    chosen = {
        name: values[name]
        for name in declared
        if values[name] != declared[name]["default"]
    }
    problems = list(_beyond(header, values, chosen))
    if problems:
        raise ParameterError(problems)
    return chosen


# Of a parameter named dtype: what one rounding may change, relative to the value.
_ROUNDINGS = {"bfloat16": 2.0**-7, "float16": 2.0**-10}
MOST_ROUNDINGS = 4


def at_values(header: Header, chosen: Mapping[str, Any]) -> Header:
    """The header for a run at these values.

    Half precision widens the tolerances of `match`, but never one that is exact.
    """
    least = MOST_ROUNDINGS * _ROUNDINGS.get(str(chosen.get("dtype")), 0.0)
    match = {key: max(t, least) if t else t for key, t in header.match.items()}
    return dataclasses.replace(header, match=match)


def defaults_of(parameters: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    return {name: parameter["default"] for name, parameter in parameters.items()}


def _refused(parameter: Mapping[str, Any], value: Any) -> str:
    """The code of what is wrong with a value; "" where it is allowed."""
    if "choices" in parameter:
        choices = parameter["choices"]
        found = [item for item in choices if item == value and _same_kind(item, value)]
        return "" if found else "choice"
    whole = _is_whole(parameter)
    fits = _is_number(value) and parameter["min"] <= value <= parameter["max"]
    if whole and not (fits and isinstance(value, int)):
        return "whole"
    return "" if fits else "number"


def _typed(parameter: Mapping[str, Any], value: Any) -> Any:
    """An allowed value in the type that was declared: 1 of a fraction is 1.0."""
    if "choices" in parameter:
        return parameter["choices"][parameter["choices"].index(value)]
    return value if _is_whole(parameter) else float(value)


def _is_whole(parameter: Mapping[str, Any]) -> bool:
    return all(isinstance(parameter[key], int) for key in ("min", "max", "default"))


def _allowed(parameter: Mapping[str, Any]) -> Dict[str, str]:
    if "choices" in parameter:
        return {"choices": ", ".join(map(shown_value, parameter["choices"]))}
    return {key: shown_value(parameter[key]) for key in ("min", "max")}


def shown_value(value: Any) -> str:
    """A value as commands and addresses have it: true, 704, 0.5, bfloat16."""
    text = value if isinstance(value, str) else dumps(value)
    return visible(text)[:LONGEST_VALUE]


def read_value(parameter: Mapping[str, Any], text: str) -> Any:
    """The value that a text means, in the type of the declaration if it can be."""
    kind = parameter["choices"][0] if "choices" in parameter else parameter["default"]
    numbers = [parameter[key] for key in ("min", "max") if key in parameter] or [kind]
    text = text.strip()
    if isinstance(kind, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(kind, str):
        return text
    if _WHOLE.match(text):
        return int(text)
    if _DECIMAL.match(text) and any(
        isinstance(number, float) for number in (kind, *numbers)
    ):
        return float(text)
    return text


def read_values(header: Header, texts: Mapping[str, str]) -> Dict[str, Any]:
    """`choose` for texts, as forms, addresses and command lines have them."""
    declared = header.parameters
    given = {
        name: read_value(declared[name], text) if name in declared else text
        for name, text in texts.items()
    }
    return choose(header, given)


def read_settings(header: Header, settings: Iterable[str]) -> Dict[str, Any]:
    """`read_values` for arguments NAME=VALUE. Raises ParameterError."""
    texts = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        texts[name.strip()] = text
    return read_values(header, texts)


def amount(formula: str, values: Mapping[str, Any]) -> float:
    """What a bound's formula gives for these values."""
    total = 0.0
    for product in formula.split("+"):
        term = 1.0
        for operator, factor in _STEP.findall(product):
            number = float(values.get(factor, factor))
            if operator == "/":
                term = term / number if number else math.inf
            else:
                term *= number
        total += term
    return total


def _beyond(
    header: Mapping[str, Any], values: Mapping[str, Any], chosen: Mapping[str, Any]
) -> Iterator[Tuple[str, str, Dict[str, str]]]:
    """The stated bounds that these values exceed, by the parameters at fault."""
    limits = {"memory_mib": header["memory_mib"], "time_s": header["timeout_s"]}
    for key, formula in header["bounds"].items():
        needed, limit = amount(formula, values), limits[key]
        if not needed <= limit:
            names = [name for name in chosen if name in re.findall(r"\w+", formula)]
            facts = {"needed": "%.0f" % needed, "limit": "%g" % limit}
            yield ", ".join(names), key, facts


def _parameter_reads(source: str) -> Iterator[str]:
    """The names in calls `parameter("name")`; "" for one that names none."""
    for node in ast.walk(_tree(source)):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if is_call and node.func.id == "parameter":  # type: ignore[attr-defined]
            first = [*node.args, None][0]  # type: ignore[attr-defined]
            named = isinstance(first, ast.Constant) and isinstance(first.value, str)
            yield first.value if named else ""


def _unread(header: Header, source: str) -> Iterator[str]:
    """Parameters that the source does not read, and reads of what is none."""
    if not header.parameters and "parameter(" not in source:
        return
    read = set(_parameter_reads(source))
    for name in header.parameters:
        if name not in read:
            yield "tool.doesitnan.parameters.%s: the source never reads it" % name
    for name in sorted(read - set(header.parameters)):
        yield "parameter(%r): tool.doesitnan.parameters declares no such name" % name


REQUIRED_CHECKS = ("control", "detector", "trigger")
_SINGLE_CHECKS = ("reference", "control", "detector", "trigger")
_CHECK_FAMILIES = ("workaround_", "refuted_")


# CPython up to 3.11.7 counts the depth of a tree for all threads together: two that
# parse at once get a SystemError now and then (python/cpython#106905).
_PARSING = threading.Lock()


@functools.lru_cache(maxsize=2)  # One repro is read several times over.
def _tree(source: str) -> ast.Module:
    """Shared by all who ask for it, so nobody changes it."""
    with _PARSING:
        return ast.parse(source)


def _functions(source: str) -> List[Any]:
    try:
        body = _tree(source).body
    except SyntaxError as error:
        raise ContractError(["line %s: %s" % (error.lineno, error.msg)]) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ContractError(["the source cannot be parsed: %s" % error]) from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in body if isinstance(node, kinds)]


def list_checks(source: str) -> List[str]:
    """Names of the checks in the order they run, read without executing anything.

    reference, control, detector, trigger, workaround_*, refuted_*; `requires` is not a
    check. Raises ContractError with every problem found.
    """
    errors: List[str] = []
    found: List[str] = []
    for node in _functions(source):
        name = node.name
        if name not in (*_SINGLE_CHECKS, "requires") and not name.startswith(
            _CHECK_FAMILIES
        ):
            continue
        where = "line %d: %s" % (node.lineno, name)
        if isinstance(node, ast.AsyncFunctionDef):
            errors.append("%s: a check is a plain function, not async" % where)
        given = node.args
        positional = given.args or given.posonlyargs or given.vararg
        if positional or given.kwonlyargs or given.kwarg:
            errors.append("%s: a check takes no arguments" % where)
        if not _NAME.match(name) or name in _CHECK_FAMILIES:
            errors.append("%s: name it in lower-case letters, digits and _" % where)
        if name in found:
            errors.append("%s: defined twice" % where)
        found.append(name)
    errors.extend("%s: missing" % name for name in REQUIRED_CHECKS if name not in found)
    if errors:
        raise ContractError(errors)
    ordered = [name for name in _SINGLE_CHECKS if name in found]
    for family in _CHECK_FAMILIES:
        ordered.extend(name for name in found if name.startswith(family))
    return ordered


def read_repro(source: str) -> Tuple[Header, List[str]]:
    """Header and checks of a repro, and whether they fit each other."""
    header, checks = parse_header(source), list_checks(source)
    errors = [
        "tool.doesitnan.env.%s: names no check" % name
        for name in header.env
        if name != "all" and name not in checks
    ]
    has_workaround = any(name.startswith("workaround_") for name in checks)
    if has_workaround and not (header.match or header.match_waived):
        errors.append(
            "tool.doesitnan.match: missing; a workaround is compared with the control "
            "(or give match_waived with the reason)"
        )
    errors.extend(_unread(header, source))
    if errors:
        raise ContractError(errors)
    return header, checks


# ---------------------------------------------------------------------------
# Values: JSON without NaN, digests, text that is safe to show
# ---------------------------------------------------------------------------

_FLOAT_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any) -> Any:
    """The same value with each non-finite number as {"$float": "nan"|"inf"|"-inf"}."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(float(value))}
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, dict):
        if list(value) == ["$float"] and str(value["$float"]) in _FLOAT_WORDS:
            return _FLOAT_WORDS[value["$float"]]
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value


def dumps(value: Any, indent: Optional[int] = None) -> str:
    """Canonical JSON: sorted keys, non-finite numbers encoded, UTF-8 text as it is."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        encode(value),
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        separators=separators,
    )


def _sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def source_digest(source: str) -> str:
    """sha256 of the UTF-8 bytes of a repro."""
    return _sha256(source)


def _database_form(value: Any) -> Any:
    """Numbers as a jsonb column gives them back: 1.0 and 1e22 are integers, -0.0 is 0.

    A digest must not change by a stay in PostgreSQL.
    """
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(decimal.Decimal(repr(float(value))))
    if isinstance(value, dict):
        return {key: _database_form(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_database_form(item) for item in value]
    return value


def evidence_digest(evidence: Mapping[str, Any]) -> str:
    """Digest of an evidence object: canonical JSON without `digest` and `origin`."""
    kept = {k: v for k, v in evidence.items() if k not in ("digest", "origin")}
    return _sha256(dumps(_database_form(kept)))


# Control characters (except tab and line feed), bidirectional controls, line and
# paragraph separators, byte order mark, lone surrogates.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Text with its control characters spelled out: ESC as ␛, others as <U+202E>."""

    def spell(found: Any) -> str:
        code = ord(found.group())
        return chr(0x2400 + code) if code < 0x20 else "<U+%04X>" % code

    return _INVISIBLE.sub(spell, text)


def build_slug(raw: str, cuda: Optional[str] = None, override: str = "") -> str:
    """The name of a build in addresses, queues and evidence.

    >>> build_slug("2.13.0+cpu"), build_slug("2.5.1", "12.4")
    ('2.13.0-cpu', '2.5.1-cu124')
    """
    if override:
        name = override
    elif "+" in raw:
        name = raw.replace("+", "-")
    else:
        name = raw + ("-cu" + cuda.replace(".", "") if cuda else "-cpu")
    return re.sub(r"[^a-z0-9._-]", "-", name.lower()).strip("._-")[:61]


# ---------------------------------------------------------------------------
# Predicates over observations
# ---------------------------------------------------------------------------


class MetricError(ValueError):
    """Observations that cannot answer the predicate."""


class Predicate(NamedTuple):
    """KEY OP LITERAL; `literal` is None for is_nonfinite."""

    key: str
    op: str
    literal: Any


_OPERATORS: Dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def parse_predicate(source: str) -> Predicate:
    """'nonfinite > 0' or 'loss is_nonfinite'. Raises ValueError with what is wrong."""
    found = _PREDICATE.match(source)
    if not found:
        raise ValueError(
            "%r: write KEY OP VALUE with == != < <= > >=, or KEY is_nonfinite" % source
        )
    key, op, text, nonfinite = found.groups()
    if nonfinite:
        return Predicate(key, nonfinite, None)
    try:
        literal = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        raise ValueError(
            '%r: the value must be a number, true, false or a "text"' % source
        ) from None
    if not isinstance(literal, (str, bool, int, float)):
        raise ValueError("%r: the value must be a single one" % source)
    if not _is_number(literal) and op not in ("==", "!="):
        raise ValueError("%r: only == and != fit this value" % source)
    return Predicate(key, op, literal)


def _refuse_constant(word: str) -> None:
    raise ValueError("%s is not JSON" % word)


def predicate_holds(source: str, observations: Mapping[str, Any]) -> bool:
    """Whether a predicate holds.

    Raises MetricError where the key is missing, its type is not the literal's, or it is
    NaN: every comparison with NaN is false, which must not read as "clean".
    """
    key, op, literal = parse_predicate(source)
    if key not in observations:
        raise MetricError("%s: the check did not report %s" % (source, key))
    value = decode(observations[key])
    if op == "is_nonfinite":
        numbers = value if isinstance(value, list) else [value]
        if not numbers or not all(map(_is_number, numbers)):
            raise MetricError("%s: %s is not a number" % (source, key))
        return not all(map(math.isfinite, numbers))
    if not _same_kind(value, literal):
        raise MetricError("%s: %s is of another type: %s" % (source, key, dumps(value)))
    if _is_number(value) and math.isnan(value):
        raise MetricError("%s: %s is NaN; use is_nonfinite" % (source, key))
    return _OPERATORS[op](value, literal)


def _same_kind(value: Any, literal: Any) -> bool:
    if _is_number(literal):
        return _is_number(value)
    return type(value) is type(literal)


# ---------------------------------------------------------------------------
# The judge: pure functions from reports to outcomes, from outcomes to a verdict
# ---------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckSpec:
    """One check to start: what it may use and for how long.

    `env`: what the record asks for; it must be there before torch is imported, so such
    a check always starts cold. `preset`: what the harness itself sets. `parameters`:
    the values that are not the defaults.
    """

    name: str
    trial: int = 0
    env: Dict[str, str] = field(default_factory=dict)
    timeout_s: float = 60
    memory_mib: int = 2048
    preset: Dict[str, str] = field(default_factory=dict)
    parameters: Dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> Dict[str, str]:
        """Both together; the record has the last word."""
        return dict(self.preset, **self.env)


@dataclass
class Report:
    """What the parent saw of one check. `failure`: None or a reason.

    `killed_by`: who killed it from outside (KILLERS), so that it says nothing of the
    check; "" where nobody did, or where that cannot be told.
    """

    messages: List[Dict[str, Any]] = field(default_factory=list)
    hello: Optional[Dict[str, Any]] = None
    failure: Optional[str] = None
    exit: Optional[int] = None
    duration_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: int = 0
    log_text: str = ""
    cut_bytes: int = 0
    served: str = "cold"
    killed_by: str = ""


Start = Callable[[CheckSpec], Report]


class Planner(Protocol):
    """A Start that wants to hear which checks come next, to begin some early."""

    def __call__(self, spec: CheckSpec) -> Report: ...

    def plan(self, specs: Sequence[CheckSpec]) -> ContextManager[object]:
        """For the block: `specs` are asked for in this order, or not at all."""


class Assessment(NamedTuple):
    """Outcome of one check; `note` says why, for the log."""

    outcome: str
    reason: Optional[str] = None
    note: str = ""


@dataclass(frozen=True)
class Judgement:
    """What the checks of one run show together."""

    verdict: str
    reason: Optional[str]
    is_affected: Optional[bool]
    hits: Optional[int]
    trials: int
    workarounds: Dict[str, str]
    refuted: Dict[str, str]


RESERVED_TEXTS = ("ran", "device", "mode", "not_applicable")


def observation_problems(observations: Any) -> List[str]:
    """Why these (decoded) observations do not keep the contract; [] = they do."""
    if not isinstance(observations, dict):
        return ["a check returns a dict of observations"]
    problems = []
    if len(observations) > 64:
        problems.append("more than 64 observations")
    for key, value in observations.items():
        if not _NAME.match(key):
            problems.append("%r is not a name for an observation" % key[:80])
        problem = _value_problem(value)
        if not problem and key in RESERVED_TEXTS and not isinstance(value, str):
            problem = "is reserved for a text"
        if problem:
            problems.append("%s %s" % (key[:80], problem))
    if not problems and len(dumps(observations).encode("utf-8", "replace")) > 65536:
        problems.append("the observations are larger than 64 KiB")
    return problems


def _value_problem(value: Any) -> str:
    if isinstance(value, str):
        return "is longer than 4 kB" if len(value.encode("utf-8")) > 4096 else ""
    if isinstance(value, list):
        if len(value) > 1000:
            return "has more than 1,000 numbers"
        return "is a list of other things than numbers" * (
            not all(map(_is_storable_number, value))
        )
    if isinstance(value, bool) or _is_storable_number(value):
        return ""
    kind = value.get("$type") if isinstance(value, dict) else None
    return "is a %s; return int, float, bool, str or a list of numbers" % (
        kind or type(value).__name__
    )


def _is_storable_number(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, float) or abs(value) < 2**63)


def _clean_texts(observations: Any) -> Any:
    if not isinstance(observations, dict):
        return observations
    return {
        key: visible(value) if isinstance(value, str) else value
        for key, value in observations.items()
    }


def reported_observations(report: Report) -> Any:
    """The decoded observations of a report, texts made safe; None if it has none."""
    if report.failure or not report.messages or report.messages[0]["t"] != "result":
        return None
    return _clean_texts(decode(report.messages[0].get("observations")))


def examine(
    header: Header,
    report: Report,
    name: str,
    control: Optional[Mapping[str, Any]] = None,
) -> Assessment:
    """Outcome of one check from its report. `control`: the control's observations."""
    if report.failure:
        return Assessment("error", report.failure)
    if not report.messages:
        return Assessment("error", "no_report")
    message = report.messages[0]
    if message["t"] == "raised":
        identity = (report.hello or {}).get("identity")
        missing = message.get("type") in ("ImportError", "ModuleNotFoundError")
        return Assessment("error", "raised" if identity and not missing else "import")
    if message.get("check") != name:
        return Assessment("error", "channel", "the report is of another check")
    observations = reported_observations(report)
    problems = observation_problems(observations)
    if problems:
        return Assessment("error", "contract", "; ".join(problems[:8]))
    return assess(header, name, observations, control)


def classify(
    header: Header,
    report: Report,
    name: str,
    control: Optional[Mapping[str, Any]] = None,
) -> Tuple[str, Optional[str]]:
    """Outcome (bug, clean, not_applicable, error) and reason of one check."""
    return examine(header, report, name, control)[:2]


def said(text: str) -> str:
    """The reason that carries a repro's own words, on one line."""
    return "said:" + visible(" ".join(text.split()))[:180]


def assess(
    header: Header,
    name: str,
    observations: Mapping[str, Any],
    control: Optional[Mapping[str, Any]] = None,
) -> Assessment:
    """Outcome of a check that reported properly: the predicate, applied."""
    if name == "requirements":
        return Assessment("clean")
    text = observations.get("not_applicable")
    if text is not None:
        return Assessment("not_applicable", said(str(text)))
    try:
        if name == "reference":
            return _assess_reference(header, observations)
        if name == "trigger":
            unmet = _unmet_expectation(header, observations)
            if unmet:
                return Assessment("not_applicable", "not_taken", unmet)
        if _shows_bug(header, observations):
            return Assessment("bug")
        if name.startswith("workaround_"):
            require_match(header, observations, control or {})
    except MetricError as error:
        return Assessment("error", "metric", str(error))
    return Assessment("clean")


def _shows_bug(header: Header, observations: Mapping[str, Any]) -> bool:
    # Every predicate is read, so that none is missing unnoticed.
    found = [predicate_holds(source, observations) for source in header.bug]
    return all(found)


def _assess_reference(header: Header, observations: Mapping[str, Any]) -> Assessment:
    numbers: List[float] = []
    for value in map(decode, observations.values()):
        items = value if isinstance(value, list) else [value]
        numbers.extend(filter(_is_number, items))
    if not numbers or not all(map(math.isfinite, numbers)):
        return Assessment("error", "reference", "the reference must be finite numbers")
    try:
        if _shows_bug(header, observations):
            return Assessment("bug", None, "the reference itself shows the bug")
    except MetricError:
        pass  # A reference need not report what the predicate reads.
    return Assessment("clean")


def _unmet_expectation(header: Header, observations: Mapping[str, Any]) -> str:
    for key, wanted in header.expect.items():
        if key not in observations:
            raise MetricError("expect: the trigger did not report %s" % key)
        got = decode(observations[key])
        if not _same_kind(got, wanted):
            raise MetricError("expect: %s is of another type" % key)
        if got != wanted:
            return "expected %s = %s, got %s" % (key, dumps(wanted), dumps(got))
    return ""


def require_match(
    header: Header, observations: Mapping[str, Any], control: Mapping[str, Any]
) -> None:
    """Raise MetricError unless a workaround equals the control in `match`.

    Without it, doing nothing at all would be the best workaround.
    """
    for key, tolerance in header.match.items():
        ours, theirs = decode(observations.get(key)), decode(control.get(key))
        if not _close(ours, theirs, tolerance):
            raise MetricError(
                "match: %s is %s here and %s in the control, tolerance %g"
                % (key, dumps(ours), dumps(theirs), tolerance)
            )


def _close(ours: Any, theirs: Any, tolerance: float) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        same_length = len(ours) == len(theirs)
        return same_length and all(map(_close, ours, theirs, repeat(tolerance)))
    if _is_number(ours) and _is_number(theirs):
        return math.isfinite(theirs) and abs(ours - theirs) <= tolerance * abs(theirs)
    return ours is not None and type(ours) is type(theirs) and bool(ours == theirs)


def unmet_requirement(header: Header, facts: Mapping[str, Any]) -> Optional[str]:
    """The reason why a repro cannot run where these facts hold; None = it can.

    `facts` as the probe reports them: python, torch (raw versions), devices (list),
    missing (stack modules), packages (versions), compiler, loader, loopback (booleans),
    said (what `requires()` returned).
    """
    return (
        _unmet_device(header, facts.get("devices") or [])
        or ("stack" if facts.get("missing") else None)
        or _unmet_version(header, facts)
        or next((need for need in NEEDS if _lacks(need, header, facts)), None)
        or (said(str(facts["said"])) if facts.get("said") else None)
    )


def _lacks(need: str, header: Header, facts: Mapping[str, Any]) -> bool:
    return need in header.needs and facts.get(need) is not True


def _unmet_device(header: Header, devices: Sequence[Any]) -> Optional[str]:
    if header.device == "cpu":
        return None
    # The repro runs on the first devices, so these are the ones to look at.
    used = [d for d in devices if d.get("class") == "cuda"][: header.min_devices]
    if not used:
        return "device"
    lowest = release(header.min_capability)
    if any(release(d.get("capability") or "") < lowest for d in used):
        return "capability"
    if any(d.get("memory_mib", 0) < header.min_memory_gib * 1024 for d in used):
        return "memory"
    return "devices" if len(used) < header.min_devices else None


def _unmet_version(header: Header, facts: Mapping[str, Any]) -> Optional[str]:
    python = release(header.requires_python.lstrip("> ="))
    if release(str(facts.get("python") or "")) < python:
        return "api"
    packages = facts.get("packages") or {}
    for name, lowest in map(parse_dependency, header.dependencies):
        if name == "torch":
            if release(str(facts.get("torch") or "")) < lowest:
                return "api"
        elif release(str(packages.get(name) or "")) < (lowest or (0,)):
            return "stack"
    return None


def _gate(name: str, outcome: str, reason: Optional[str]) -> Optional[Tuple[str, str]]:
    """What one outcome does to the run: None = go on, else verdict and reason."""
    if name.startswith(_CHECK_FAMILIES):
        return None
    if outcome == "not_applicable":
        return "not_applicable", reason or "device"
    if outcome == "error":
        verdict = "inconclusive" if reason in ("metric", "reference") else "error"
        return verdict, reason or "no_report"
    misbehaved = {
        ("reference", "bug"): "reference",
        ("control", "bug"): "control",
        ("detector", "clean"): "detector_silent",
    }.get((name, outcome))
    return ("inconclusive", misbehaved) if misbehaved else None


def _outcomes(
    header: Header, checks: Iterable[Mapping[str, Any]]
) -> Iterator[Tuple[str, str, Optional[str]]]:
    """(name, outcome, reason) of recorded checks; the predicate is applied anew.

    Only what kept a check from reporting is taken as recorded.
    """
    control: Mapping[str, Any] = {}
    for check in checks:
        name, outcome, reason = check["name"], check["outcome"], check["reason"]
        observations = decode(check.get("observations") or {})
        if name == "control":
            control = observations
        failed = outcome == "error" and reason not in ("metric", "reference")
        if not failed and name != "requirements":
            outcome, reason, _ = assess(header, name, observations, control)
        yield name, outcome, reason


def judge(
    header: Header,
    checks: Sequence[Mapping[str, Any]],
    planned: Optional[Sequence[str]] = None,
    parameters: Optional[Mapping[str, Any]] = None,
) -> Judgement:
    """The verdict of a run, from its recorded checks alone.

    Pure, so that stored evidence can be judged again. `planned`: the names of
    `list_checks`; a check that had to run and did not leaves no verdict. `parameters`:
    values that are not the defaults; what they show says nothing of the build.
    """
    header = at_values(header, parameters or {})
    results = list(_outcomes(header, checks))
    triggers = [outcome for name, outcome, _ in results if name == "trigger"]
    fault = next(filter(None, (_gate(*result) for result in results)), None)
    if fault is None and not _complete(results, planned):
        fault = ("error", "no_report")
    hits: Optional[int] = None
    verdict, reason = "", None
    if fault:
        verdict, reason = fault
    else:
        hits = triggers.count("bug")
        verdict = "bug_present" if hits else "bug_absent"
    return Judgement(
        verdict=verdict,
        reason=reason,
        is_affected=None if parameters else _is_affected(header, verdict),
        hits=hits,
        trials=len(triggers),
        workarounds=_workarounds(verdict, results, planned or ()),
        refuted={n[8:]: o for n, o, _ in results if n.startswith("refuted_")},
    )


def judge_variant(
    header: Header, checks: Sequence[Mapping[str, Any]], planned: Sequence[str]
) -> Dict[str, str]:
    """The status of each workaround in a variant, from the checks of that variant.

    Known only where the control was clean and the trigger showed the bug there too.
    `planned`: the names of `variant_checks`.
    """
    results = list(_outcomes(header, checks))
    of = {
        name: {o for n, o, _ in results if n == name} for name in ("control", "trigger")
    }
    shown = of["control"] == {"clean"} and "bug" in of["trigger"]
    return _workarounds("bug_present" if shown else "", results, planned)


def misrecorded(
    header: Header, checks: Sequence[Mapping[str, Any]]
) -> List[Tuple[str, str]]:
    """(check, outcome) that the observations give where another one was recorded."""
    again = enumerate(_outcomes(header, checks))
    return [
        (name, outcome)
        for at, (name, outcome, reason) in again
        if (checks[at]["outcome"], checks[at]["reason"]) != (outcome, reason)
    ]


def _complete(results: Sequence[Any], planned: Optional[Sequence[str]]) -> bool:
    seen = {name for name, _, _ in results}
    wanted = set(REQUIRED_CHECKS) | ({"reference"} & set(planned or ()))
    return wanted <= seen


def _is_affected(header: Header, verdict: str) -> Optional[bool]:
    if header.fidelity == "mechanism_model":
        return None
    return {"bug_present": True, "bug_absent": False}.get(verdict)


def _workarounds(
    verdict: str, results: Sequence[Any], planned: Sequence[str]
) -> Dict[str, str]:
    prefix = "workaround_"
    ran: Dict[str, List[str]] = {n: [] for n in planned if n.startswith(prefix)}
    for name, outcome, _ in results:
        if name.startswith(prefix):
            ran.setdefault(name, []).append(outcome)
    known = verdict == "bug_present"
    return {
        name[len(prefix) :]: _status(outcomes) if known else "untested"
        for name, outcomes in ran.items()
    }


def _status(outcomes: Sequence[str]) -> str:
    """Of a workaround, from its trials: one with the bug is enough against it."""
    if "bug" in outcomes:
        return "does_not_help"
    return "verified" if set(outcomes) == {"clean"} else "untested"


# ---------------------------------------------------------------------------
# The driver: every check in order, up to the evidence object
# ---------------------------------------------------------------------------


class Cancelled(Exception):
    """The run was cancelled; there is no evidence."""


def check_order(checks: Sequence[str], trials: int) -> List[Tuple[str, int]]:
    """(check, trial) in the order of the contract, the requirements first."""
    order = [("requirements", 0)]
    for name in checks:
        order.extend((name, trial) for trial in range(times_of(name, trials)))
    return order


def times_of(check: str, trials: int) -> int:
    """How often a check runs: what may hide by chance, as often as there are trials."""
    return trials if check == "trigger" or check.startswith("workaround_") else 1


def _phase(check: str, trial: int, trials: int) -> str:
    """What is told of a run at this check: "trigger 2/5"."""
    times = times_of(check, trials)
    counted = check == "trigger" or times > 1
    return "%s %d/%d" % (check, trial + 1, times) if counted else check


def variant_checks(source: str, checks: Sequence[str]) -> List[str]:
    """The checks that run in each variant: what a reader pastes, and what it needs.

    The workarounds that are functions `apply_<name>`, after control and trigger.
    """
    pasted = {node.name for node in _functions(source)}
    prefix = "workaround_"
    found = [
        n
        for n in checks
        if n.startswith(prefix) and "apply_" + n[len(prefix) :] in pasted
    ]
    return ["control", "trigger", *found] if found else []


def check_spec(
    header: Header,
    name: str,
    trial: int = 0,
    parameters: Optional[Mapping[str, Any]] = None,
) -> CheckSpec:
    """How one check of this repro is to be started; `parameters` from `choose`."""
    env = dict(header.env.get("all", {}))
    env.update(header.env.get(name, {}))
    preset = {}
    if header.device == "cpu":
        preset["CUDA_VISIBLE_DEVICES"] = ""
    if "loopback" in header.needs:
        preset["GLOO_SOCKET_IFNAME"] = "lo"
    timeout_s = header.timeout_s
    if name == "requirements":
        # It imports torch first of all, and compiles for real where that is needed.
        timeout_s = max(timeout_s, PROBE_TIMEOUT_S)
    chosen = dict(parameters or {})
    return CheckSpec(name, trial, env, timeout_s, header.memory_mib, preset, chosen)


# A check that was killed from outside starts again so often, and no more.
MOST_REPEATS = 2
# By what, as evidence says it and as a log does.
KILLERS = {
    "oom": "by the host, which had no memory left",
    "signal": "by a signal from outside",
}


def killed(kill: Mapping[str, Any]) -> str:
    """One of the `killed` of a check, in words."""
    return "killed after %.1f s %s" % (kill["after_s"], KILLERS[kill["by"]])


BUILD_KEYS = (
    "slug",
    "raw",
    "dist",
    "git",
    "cuda",
    "hip",
    "cudnn",
    "python",
    "platform",
    "packages",
)


class _Run:
    """One run of one repro: its checks so far, and what the probe saw."""

    def __init__(
        self, source: str, start: Start, given: Optional[Mapping[str, Any]] = None
    ) -> None:
        self.header, self.names = read_repro(source)
        self.parameters = choose(self.header, given or {})
        self.header = at_values(self.header, self.parameters)
        self.in_variants = variant_checks(source, self.names)
        self.digest = source_digest(source)
        self.start = start
        self.checks: List[Dict[str, Any]] = []
        self.identity: Dict[str, Any] = {}
        self.devices: List[Dict[str, Any]] = []

    def started(
        self, spec: CheckSpec, tell: Optional[Callable[[str], None]]
    ) -> Tuple[Report, List[Dict[str, Any]]]:
        """The report of a check, and how often it was killed from outside.

        Such an end says nothing of the check, so it starts again, MOST_REPEATS times.
        What it did itself is never repeated: that is what a run is to show.
        """
        kills: List[Dict[str, Any]] = []
        while True:
            report = self.start(spec)
            if not report.killed_by:
                return report, kills
            after_s = round(report.duration_s, 3)
            kills.append({"by": report.killed_by, "after_s": after_s})
            if len(kills) > MOST_REPEATS:
                return report, kills
            if tell:
                tell("%s; it starts again" % killed(kills[-1]))

    def spec(self, name: str, trial: int) -> CheckSpec:
        return check_spec(self.header, name, trial, self.parameters)

    def planned(self, order: Iterable[Tuple[str, int]]) -> ContextManager[object]:
        """Tell the start of the checks that come next, where it wants to hear it.

        Not where the bug may hide by chance: what runs beside a trial may change that.
        """
        plan = getattr(self.start, "plan", None)
        if plan is None or self.header.trials > 1:
            return contextlib.nullcontext()
        found: ContextManager[object] = plan([self.spec(*one) for one in order])
        return found

    def in_turn(
        self,
        order: Sequence[Tuple[str, int]],
        each: Callable[[str, int], Dict[str, Any]],
    ) -> bool:
        """Run these checks by `each`, up to one that ends the run; whether none did."""
        with self.planned(order):
            for name, trial in order:
                check = each(name, trial)
                if _gate(name, check["outcome"], check["reason"]):
                    return False
        return True

    def check(
        self, name: str, trial: int, tell: Optional[Callable[[str], None]] = None
    ) -> Dict[str, Any]:
        """Start one check, examine its report, record it; `tell` what goes on."""
        report, kills = self.started(self.spec(name, trial), tell)
        if not report.failure and report.hello is not None:
            report.failure = self.contradiction(name, report.hello)
        if name == "requirements":
            found = self.requirements(report)
        else:
            found = examine(self.header, report, name, self.control())
        observations = reported_observations(report)
        if found.reason == "contract" or not isinstance(observations, dict):
            observations = {}
        log = "".join("[harness] %s\n" % killed(kill) for kill in kills)
        log += report.log_text
        if found.note:
            log += "[harness] %s\n" % visible(found.note)
        if report.failure and report.messages:
            early = visible(dumps(decode(report.messages[0])))[:LOG_LINE_CHARS]
            log += "[harness] reported before it failed: %s\n" % early
        recorded = {
            "name": name,
            "trial": trial,
            "outcome": found.outcome,
            "reason": found.reason,
            "observations": encode(observations),
            "duration_s": round(report.duration_s, 3),
            "cpu_s": round(report.cpu_s, 3),
            "peak_mib": report.peak_mib,
            "exit": report.exit,
            "served": report.served,
            "log": {"text": log, "cut_bytes": report.cut_bytes},
        }
        if kills:
            recorded["killed"] = kills
        self.checks.append(recorded)
        return recorded

    def contradiction(self, name: str, hello: Dict[str, Any]) -> Optional[str]:
        """A child that ran another source, other values or another torch than this."""
        ran = hello.get("repro"), hello.get("parameters") or {}
        if ran != (self.digest, self.parameters):
            return "refused"
        theirs, ours = hello["identity"], self.identity
        if name == "requirements" or not theirs:
            return None
        same = all(theirs.get(key) == ours.get(key) for key in ("raw", "git"))
        return None if same else "channel"

    def requirements(self, report: Report) -> Assessment:
        found = examine(self.header, report, "requirements")
        hello = report.hello or {}
        self.identity = _table_of(hello.get("identity"))
        self.devices = [_table_of(item) for item in hello.get("devices") or []]
        if found.outcome != "clean":
            return found
        facts = dict(_table_of(hello.get("facts")), devices=self.devices)
        facts.update(reported_observations(report))
        unmet = unmet_requirement(self.header, facts)
        return Assessment("not_applicable", unmet) if unmet else found

    def control(self) -> Dict[str, Any]:
        found = [c["observations"] for c in self.checks if c["name"] == "control"]
        return dict(decode(found[0])) if found else {}

    def build(self) -> Dict[str, Any]:
        return {key: self.identity.get(key) for key in BUILD_KEYS}

    def device(self) -> Dict[str, Any]:
        device: Dict[str, Any] = {
            "class": self.header.device,
            "name": None,
            "capability": None,
            "driver": None,
            "uuid": None,
            "count": len(self.devices),
        }
        if self.header.device == "cpu":
            device["name"] = self.identity.get("machine")
        elif self.devices:
            first = self.devices[0]
            named = ("name", "capability", "driver", "uuid")
            device.update({key: first.get(key) for key in named})
        return device

    def evidence(self, name: str) -> Dict[str, Any]:
        """What the checks show, judged; the rest of the evidence is the caller's."""
        header = self.header
        found: Dict[str, Any] = {
            "schema": SCHEMA,
            "state": "finished",
            "repro": {"name": name, "digest": self.digest, "fidelity": header.fidelity},
            "build": self.build(),
            "device": self.device(),
            "checks": self.checks,
            "limits": {
                "timeout_s": header.timeout_s,
                "memory_mib": header.memory_mib,
                "processes": None,
            },
            "harness": PROTOCOL,
        }
        judgement = judge(header, self.checks, self.names, self.parameters)
        found.update(dataclasses.asdict(judgement))
        if self.parameters:
            found["parameters"] = self.parameters
        return found

    def has_variants(self, verdict: str) -> bool:
        """Whether the code of its workarounds is to be tried at other values too."""
        at_defaults = verdict == "bug_present" and not self.parameters
        return at_defaults and bool(self.in_variants and self.header.variants)

    def variant(
        self, name: str, each: Callable[["_Run", str, int, str], Any]
    ) -> Dict[str, Any]:
        """Control, trigger and the code of each workaround, at the variant's values.

        `each(run, check, trial, phase)` runs one check and returns it.
        """
        run = copy.copy(self)
        run.checks, run.parameters = [], dict(self.header.variants[name])
        run.header = at_values(self.header, run.parameters)
        phase = "variant_%s " % name
        with run.planned((check, 0) for check in self.in_variants):
            for check in self.in_variants:
                seen = ""
                for trial in range(times_of(check, self.header.trials)):
                    seen = each(run, check, trial, phase + check)["outcome"]
                    if seen != "clean":
                        break
                if seen != {"control": "clean", "trigger": "bug"}.get(check, seen):
                    break  # Nothing can be seen of a workaround where there is no bug.
        return {
            "parameters": run.parameters,
            "checks": run.checks,
            "workarounds": judge_variant(run.header, run.checks, self.in_variants),
        }


def _table_of(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Follower:
    """Runs one check at a time, tells of it, and ends the run once it is cancelled."""

    def __init__(
        self,
        on_event: Optional[Callable[[str, str], None]],
        on_check: Optional[Callable[[Dict[str, Any]], None]],
        cancelled: Optional[Callable[[], bool]],
    ) -> None:
        self.on_event = on_event
        self.on_check = on_check
        self.cancelled = cancelled

    def tell(self, phase: str, text: str) -> None:
        if self.on_event:
            self.on_event(phase, text)

    def __call__(
        self, run: "_Run", check_name: str, trial: int, phase: str
    ) -> Dict[str, Any]:
        self.tell(phase, "started")
        check = run.check(check_name, trial, functools.partial(self.tell, phase))
        if self.cancelled and self.cancelled():
            raise Cancelled()
        if self.on_check:
            self.on_check(check)
        self.tell(phase, summary(check))
        return check


def drive(
    source: str,
    start: Start,
    *,
    name: str = "repro",
    record: Optional[str] = None,
    trials: Optional[int] = None,
    parameters: Optional[Mapping[str, Any]] = None,
    tier: str = "E",
    limits: Optional[Mapping[str, Any]] = None,
    telemetry: Optional[Mapping[str, Any]] = None,
    origin: str = "harness",
    on_event: Optional[Callable[[str, str], None]] = None,
    on_check: Optional[Callable[[Dict[str, Any]], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
) -> Dict[str, Any]:
    """Run every check of a repro and return its evidence object, digest included.

    `start` starts one check and returns its Report. `on_event(phase, text)` tells a
    person what goes on, `on_check` gets each recorded check. `parameters`: values other
    than the defaults; without any, a run that shows the bug goes on with the variants.
    Raises ContractError for a source that keeps no contract or values that it does not
    allow, Cancelled once `cancelled()` is true.
    """
    each = _Follower(on_event, on_check, cancelled)
    run = _Run(source, start, parameters)
    count = trials or run.header.trials
    started_at, clock = utc_now(), time.monotonic()

    def one(check: str, trial: int) -> Dict[str, Any]:
        return each(run, check, trial, _phase(check, trial, count))

    first, *others = check_order(run.names, count)
    if run.in_turn([first], one):
        run.in_turn(others, one)
    evidence = run.evidence(name)
    if run.has_variants(evidence["verdict"]):
        names = run.header.variants
        evidence["variants"] = {name: run.variant(name, each) for name in names}
    evidence["limits"].update(limits or {})
    evidence.update(
        record=record,
        tier=tier,
        served=served_how(evidence["checks"]),
        telemetry=dict(telemetry or {}),
        started_at=started_at,
        duration_s=round(time.monotonic() - clock, 3),
        origin=origin,
    )
    return sealed(evidence)


class Cells:
    """A repro at many values, one after the other: what a sweep is made of.

    The requirements are checked once, and in each cell only what gives a verdict:
    reference, control, detector and trigger. `unmet`: verdict and reason where the
    requirements end it all, else None. Raises ContractError and Cancelled.
    """

    def __init__(
        self,
        source: str,
        start: Start,
        *,
        trials: Optional[int] = None,
        on_event: Optional[Callable[[str, str], None]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> None:
        self._each = _Follower(on_event, None, cancelled)
        self._run = _Run(source, start)
        self._trials = trials or self._run.header.trials
        self._header = self._run.header
        self._names = cell_checks(self._run.names)
        first = self._each(self._run, "requirements", 0, "requirements")
        self.unmet = _gate("requirements", first["outcome"], first["reason"])

    def at(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        """The cell of these values: verdict, reason, hits, trials and its checks."""
        run = copy.copy(self._run)
        run.checks, run.parameters = [], choose(self._header, values)
        run.header = at_values(self._header, run.parameters)
        where = " ".join("%s=%s" % (n, shown_value(v)) for n, v in values.items())
        run.in_turn(
            check_order(self._names, self._trials)[1:],
            lambda name, trial: self._each(run, name, trial, where),
        )
        return judged_cell(self._header, self._names, values, run.checks)

    def evidence(self, name: str) -> Dict[str, Any]:
        """What is the same in all cells: repro, build, device."""
        found = self._run.evidence(name)
        same = ("repro", "build", "device", "harness")
        return {key: encode(found[key]) for key in same}


CELL_FIELDS = ("name", "trial", "outcome", "reason", "observations")


def cell_checks(names: Sequence[str]) -> List[str]:
    """The checks of a cell, of those that a repro has."""
    return [name for name in names if not name.startswith(_CHECK_FAMILIES)]


def judged_cell(
    header: Header,
    names: Sequence[str],
    values: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
) -> Dict[str, Any]:
    """A cell as sweeps keep it; pure, so that a stored one can be judged again."""
    found = judge(header, checks, names, choose(header, values))
    cell = {
        "at": dict(values),
        "verdict": found.verdict,
        "reason": found.reason,
        "hits": found.hits,
        "trials": found.trials,
        "checks": [{key: check[key] for key in CELL_FIELDS} for check in checks],
    }
    return dict(encode(cell))


def sealed(evidence: Mapping[str, Any]) -> Dict[str, Any]:
    """The object as JSON takes it, with its digest."""
    found = dict(encode(evidence))
    found["digest"] = evidence_digest(found)
    return found


def served_how(checks: Sequence[Mapping[str, Any]]) -> str:
    """`served` of a whole run: warm only where every check was."""
    return "warm" if all(c["served"] == "warm" for c in checks) else "cold"


def utc_now() -> str:
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(check: Mapping[str, Any]) -> str:
    """One line about a recorded check: outcome, reason, observations."""
    words = [str(check["outcome"])]
    if check["reason"]:
        words[0] += ": %s" % check["reason"]
    for key, value in check["observations"].items():
        value = decode(value)
        text = "%d numbers" % len(value) if isinstance(value, list) else dumps(value)
        if isinstance(value, float):
            text = "%.6g" % value
        words.append("%s %s" % (key, text[:80]))
    return "  ".join(words)


# ---------------------------------------------------------------------------
# Starting a check: a subprocess, watched by the parent
# ---------------------------------------------------------------------------


DEEPEST_FRAME = 20
# Texts, also one without an end, which must not be read again from each quote in it.
_NO_BRACKETS = re.compile(rb'"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|[^\[\]{}"]+')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def too_deep(line: bytes) -> bool:
    """Whether JSON is nested more than DEEPEST_FRAME levels, or a bracket has no end.

    In linear time, whatever the bytes are: each turn takes the innermost level away.
    """
    brackets = _NO_BRACKETS.sub(b"", line).translate(_ONE_KIND)
    for _ in range(DEEPEST_FRAME):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


class ChannelReader:
    """Reads what a child writes to its private descriptor: framed, named, bounded.

    hello, then one result or raised, then end, each line with the nonce. Anything else
    sets `failure`, and nothing after it counts.
    """

    _NEXT = {"start": ("hello",), "hello": ("result", "raised"), "said": ("end",)}

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce
        self.hello: Optional[Dict[str, Any]] = None
        self.messages: List[Dict[str, Any]] = []
        self.failure: Optional[str] = None
        self.ended = False
        self._state = "start"
        self._buffer = b""
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > CHANNEL_BYTES:
            self.failure = "channel"
        if self.failure:
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._take(line)
        if self._buffer and not self._buffer.startswith(b"{"):
            self.failure = "channel"  # No frame begins like this: wait for no end.

    def close(self) -> None:
        """No more bytes will come: half a line is a broken frame."""
        if self._buffer:
            self.failure = "channel"

    def _take(self, line: bytes) -> None:
        message = self._parse(line)
        kind = message.get("t") if message else None
        if message is None or kind not in self._NEXT.get(self._state, ()):
            self.failure = "channel"
        elif kind == "hello":
            self.hello, self._state = message, "hello"
        elif kind == "end":
            self.ended, self._state = True, "end"
        else:
            self.messages.append(message)
            self._state = "said"

    def _parse(self, line: bytes) -> Optional[Dict[str, Any]]:
        # What is nested more deeply than any report is not even looked at: later on,
        # every step down costs a level of our own stack.
        if line.count(b"[") + line.count(b"{") > DEEPEST_FRAME and too_deep(line):
            return None
        try:
            message = json.loads(line.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict):
            return None
        nonce = message.pop("n", None)
        if not isinstance(nonce, str) or not secrets.compare_digest(
            nonce.encode("utf-8", "replace"), self.nonce.encode()
        ):
            return None
        is_hello = message.get("t") == "hello"
        if is_hello and not isinstance(message.get("identity"), dict):
            return None
        return message


class LogTail:
    """Output of a check as lines that are safe to show; the middle of a flood is cut.

    Keeps the first and the last 64 KiB. Lines of standard error begin with [stderr].
    `on_line(stream, text)` gets every line as it comes.
    """

    def __init__(self, on_line: Optional[Callable[[str, str], None]] = None) -> None:
        self.on_line = on_line
        self.cost_bytes = 0
        self.cut_bytes = 0
        self._decoders: Dict[str, Any] = {}
        self._partial: Dict[str, str] = {}
        self._head: List[str] = []
        self._head_room = LOG_KEEP_BYTES
        self._tail: Deque[Tuple[str, int]] = collections.deque()
        self._tail_size = 0

    def feed(self, stream: str, data: bytes, final: bool = False) -> None:
        # A line costs us more than its bytes: a flood of empty ones ends sooner.
        self.cost_bytes += len(data) + LINE_COST_BYTES * data.count(b"\n")
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._partial.get(stream, "")
        text += self._decoders[stream].decode(data, final)
        *lines, rest = text.split("\n")
        for line in lines:
            self._pieces(stream, line[:-1] if line.endswith("\r") else line)
        while len(rest) > LOG_LINE_CHARS:
            self._line(stream, rest[:LOG_LINE_CHARS])
            rest = rest[LOG_LINE_CHARS:]
        self._partial[stream] = rest

    def close(self) -> None:
        """Keep the lines that were never ended."""
        for stream in list(self._partial):
            self.feed(stream, b"", final=True)
            if self._partial[stream]:
                self._line(stream, self._partial.pop(stream))

    @property
    def text(self) -> str:
        cut = ["[harness] %d bytes cut here\n" % self.cut_bytes] * bool(self.cut_bytes)
        return "".join(self._head + cut + [line for line, _ in self._tail])

    def note(self, text: str) -> None:
        self._line("harness", text)

    def _pieces(self, stream: str, line: str) -> None:
        for at in range(0, len(line) or 1, LOG_LINE_CHARS):
            self._line(stream, line[at : at + LOG_LINE_CHARS])

    def _line(self, stream: str, text: str) -> None:
        text = visible(text)
        if self.on_line:
            self.on_line(stream, text)
        shown = (text if stream == "stdout" else "[%s] %s" % (stream, text)) + "\n"
        size = len(shown.encode("utf-8"))
        if self._head_room >= size:
            self._head_room -= size
            self._head.append(shown)
            return
        self._head_room = 0
        self._tail.append((shown, size))
        self._tail_size += size
        while self._tail_size > LOG_KEEP_BYTES:
            _, gone = self._tail.popleft()
            self._tail_size -= gone
            self.cut_bytes += gone


_SIGNAL_REASONS = {"SIGXCPU": "timeout", "SIGXFSZ": "limit:disk"}


def process_failure(channel: ChannelReader, status: Optional[int]) -> Optional[str]:
    """Why a process that ended by itself gave no report; `status` as Popen's.

    None as status: whoever watched it died before it could tell.
    """
    if status is None:
        return channel.failure or "lost"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = "SIG%d" % -status
        return _SIGNAL_REASONS.get(name, "crash:" + name)
    if channel.failure:
        return channel.failure
    return None if channel.ended and status == 0 else "no_report"


def child_command(python: str, harness: str, repro: str, spec: CheckSpec) -> List[str]:
    """The command of one check; the descriptor of the channel is added by `supervise`.

    `repro` is "-" for a bare probe of the interpreter.
    """
    child = ["--child", repro, spec.name, "--trial", str(spec.trial)]
    if spec.parameters:
        child += ["--parameters", dumps(spec.parameters)]
    return [python, harness, *child, "--cpu", str(processor_limit_s(spec))]


def processor_limit_s(spec: CheckSpec) -> int:
    """Processor time that no check within its time-out reaches; the last resort."""
    return int(spec.timeout_s * (os.cpu_count() or 1)) + 10


class Ended(NamedTuple):
    """How the process of a check ended. `status` as Popen's; None: nobody saw it.

    `refused`: why nothing of the check was started at all; "" = it was.
    """

    status: Optional[int]
    cpu_s: float = 0.0
    peak_mib: int = 0
    refused: str = ""


class Process(Protocol):
    """One started check, as `watch` needs it, wherever it runs.

    The descriptors are the reading ends of its pipes. `end_fd` turns readable once
    `poll` may answer; -1: it has to be asked in turns.
    """

    stdout_fd: int
    stderr_fd: int
    channel_fd: int
    end_fd: int

    def write_nonce(self, nonce: str) -> None:
        """Give the check its nonce, which also sets it going."""

    def poll(self) -> Optional[Ended]:
        """How it ended; None while it runs."""

    def kill(self) -> None:
        """End everything the check began; may be called twice."""

    def memory_mib(self) -> float:
        """What it uses now, without what it shares with others."""

    def limit_hit(self) -> Optional[str]:
        """The limit that the kernel enforced on it: limit:memory, limit:processes."""

    def killed_by(self) -> str:
        """Who killed it from outside, once it has ended: see Report."""

    def close(self) -> None:
        """Nothing of it is left when this returns: no process, no descriptor."""


def supervise(
    command: Sequence[str],
    spec: CheckSpec,
    *,
    cwd: str,
    env: Mapping[str, str],
    on_line: Optional[Callable[[str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
) -> Report:
    """Run one child to its end, or to its limit, and report what was seen of it.

    The child has a session of its own; whatever is left of it is killed. Never raises
    for what the child does; `build_missing` where the interpreter cannot be started.
    """
    try:
        process = PlainProcess(command, cwd, env)
    except OSError as error:
        return Report(failure="build_missing", log_text="[harness] %s\n" % error)
    return watch(process, spec, on_line=on_line, cancelled=cancelled)


def watch(
    process: Process,
    spec: CheckSpec,
    *,
    served: str = "cold",
    on_line: Optional[Callable[[str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
) -> Report:
    """Release a started check, watch it to its end or its limit, report what was seen.

    Closes `process`. Never raises for what the check does. `on_line(stream, text)` gets
    its output as it comes; `cancelled()` is asked about ten times a second.
    """
    return _Watch(process, spec, on_line, cancelled).run(served)


class PlainProcess:
    """A Process that is a child of this one, with a session of its own."""

    def __init__(
        self, command: Sequence[str], cwd: str, env: Mapping[str, str]
    ) -> None:
        """Start `command`, with `--fd N` for its channel. Raises OSError."""
        self.token = secrets.token_hex(16)
        self.channel_fd, sender = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*command, "--fd", str(sender)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env, DOESITNAN_CHILD=self.token),
                pass_fds=(sender,),
                start_new_session=True,
            )
        except OSError:
            os.close(self.channel_fd)
            raise
        finally:
            os.close(sender)
        assert self.process.stdout is not None and self.process.stderr is not None
        self.stdout_fd = self.process.stdout.fileno()
        self.stderr_fd = self.process.stderr.fileno()
        self.end_fd = _pidfd(self.process.pid)
        self.ended: Optional[Ended] = None

    def write_nonce(self, nonce: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(nonce.encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def poll(self) -> Optional[Ended]:
        return self._wait(os.WNOHANG)

    def _wait(self, options: int) -> Optional[Ended]:
        if self.ended is None:
            pid, status, usage = os.wait4(self.process.pid, options)
            if pid:
                code = exit_status(status)
                self.process.returncode = code
                cpu_s = usage.ru_utime + usage.ru_stime
                self.ended = Ended(code, cpu_s, usage.ru_maxrss // 1024)
        return self.ended

    def kill(self) -> None:
        """End every process of the session that the child began."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def memory_mib(self) -> float:
        return private_mib(session_members(self.process.pid))

    def limit_hit(self) -> Optional[str]:
        return None  # No layer here counts what it refuses.

    def killed_by(self) -> str:
        return ""  # It could have killed itself.

    def close(self) -> None:
        self.kill()
        self._wait(0)
        kill_marked(self.token)
        if self.end_fd >= 0:
            os.close(self.end_fd)
        os.close(self.channel_fd)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def exit_status(status: int) -> int:
    """A wait status in the form of Popen.returncode."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _pidfd(pid: int) -> int:
    """A descriptor that turns readable when `pid` ends; -1 where there is none."""
    try:
        return os.pidfd_open(pid)  # Linux 5.3, Python 3.9
    except (AttributeError, OSError):
        return -1


class _Watch:
    """One started check, from its release to its Report."""

    POLL_S = 0.1  # memory and cancellation
    TURN_S = 0.05  # where nothing tells of the end
    LAST_TURN_S = 0.002  # once it said that it is at its end

    def __init__(
        self,
        process: Process,
        spec: CheckSpec,
        on_line: Optional[Callable[[str, str], None]],
        cancelled: Optional[Callable[[], bool]],
    ) -> None:
        self.process = process
        self.spec = spec
        self.nonce = secrets.token_hex(16)
        self.channel = ChannelReader(self.nonce)
        self.log = LogTail(on_line)
        self.cancelled = cancelled
        self.failure: Optional[str] = None
        self.started = time.monotonic()
        self.next_poll = self.started + self.POLL_S
        self.selector = selectors.DefaultSelector()

    def run(self, served: str) -> Report:
        try:
            self._open()
            ended = self.process.poll()
            while ended is None:
                self._pump(self._patience())
                ended = self.process.poll()
                if ended is None:
                    self._enforce()
            duration_s = time.monotonic() - self.started
            hit = self.process.limit_hit()
            killed_by = self._killed_by(ended)
            if ended.refused:
                self.log.note(ended.refused)
        finally:
            self.process.kill()
            self._drain()
            self.process.close()
        return Report(
            messages=self.channel.messages,
            hello=self.channel.hello,
            failure=self._failure(ended, hit) or ("lost" if killed_by else None),
            exit=ended.status,
            duration_s=duration_s,
            cpu_s=ended.cpu_s,
            peak_mib=ended.peak_mib,
            log_text=self.log.text,
            cut_bytes=self.log.cut_bytes,
            served=served,
            killed_by=killed_by,
        )

    def _killed_by(self, ended: Ended) -> str:
        spent = ended.cpu_s >= processor_limit_s(self.spec)  # which kills as well
        return "" if self.failure or spent else self.process.killed_by()

    def _failure(self, ended: Ended, hit: Optional[str]) -> Optional[str]:
        if ended.refused:
            return "refused"
        if hit == "limit:memory":
            return hit  # Also where only a part of the check was killed.
        found = self.failure or process_failure(self.channel, ended.status)
        if found is None and self.channel.messages[0]["t"] == "result":
            told = self.channel.messages[0].get("trial", self.spec.trial)
            return None if told == self.spec.trial else "channel"
        if self.failure in ("lost", "limit:output"):
            return found
        # What the kernel enforced is why it failed, whatever came after.
        return hit or found

    def _open(self) -> None:
        pipes = [
            (self.process.channel_fd, "channel"),
            (self.process.stdout_fd, "stdout"),
            (self.process.stderr_fd, "stderr"),
        ]
        for pipe, name in pipes:
            os.set_blocking(pipe, False)
            self.selector.register(pipe, selectors.EVENT_READ, name)
        if self.process.end_fd >= 0:
            self.selector.register(self.process.end_fd, selectors.EVENT_READ, "end")
        self.process.write_nonce(self.nonce)

    def _patience(self) -> float:
        """Seconds until something has to be looked at."""
        now = time.monotonic()
        wait_s = min(self.next_poll, self.started + self.spec.timeout_s) - now
        if self.process.end_fd < 0:
            turn_s = self.LAST_TURN_S if self.channel.ended else self.TURN_S
            wait_s = min(wait_s, turn_s)
        return max(wait_s, 0.0) + 0.0005

    def _pump(self, timeout_s: float) -> bool:
        """Read what is there; whether there was anything."""
        got = False
        for key, _ in self.selector.select(timeout_s):
            if key.data == "end":
                continue
            try:
                data = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            got = got or bool(data)
            if not data:
                self.selector.unregister(key.fileobj)
            elif key.data == "channel":
                self.channel.feed(data)
            else:
                self.log.feed(key.data, data)
        return got

    def _enforce(self) -> None:
        now = time.monotonic()
        if now - self.started > self.spec.timeout_s:
            self._stop("timeout")
        elif self.channel.failure:
            self._stop(self.channel.failure)
        elif self.log.cost_bytes > OUTPUT_BYTES:
            self._stop("limit:output")
        elif now >= self.next_poll:
            if self.process.memory_mib() > self.spec.memory_mib:
                self._stop("limit:memory")
            elif self.cancelled and self.cancelled():
                self._stop("lost")
            # Where looking is dear, look less often.
            cost_s = time.monotonic() - now
            self.next_poll = now + max(self.POLL_S, 10 * cost_s)

    def _stop(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.process.kill()

    def _drain(self) -> None:
        """Take what still lies in the pipes; never wait for a writer that is left."""
        for _ in range(64):
            if not self._pump(0):
                break
        self.channel.close()
        self.log.close()
        self.selector.close()


def _processes() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def session_members(session: int) -> List[int]:
    return [pid for pid in _processes() if _session(pid) == session]


def private_mib(members: Sequence[int]) -> float:
    """Memory of these processes in MiB without files and without what they share.

    0 where there is no /proc.
    """
    resident = sum(
        _kib("/proc/%d/status" % p, b"RssAnon", b"RssShmem") for p in members
    )
    if resident < 64 * 1024:
        return resident / 1024
    # Forked workers share most of it: count each page once. Dearer, so second.
    shared = sum(
        _kib("/proc/%d/smaps_rollup" % p, b"Pss_Anon", b"Pss_Shmem") for p in members
    )
    return (shared or resident) / 1024


def _session(pid: int) -> int:
    # pid (comm) state ppid pgrp session …; comm may hold anything.
    fields = _read("/proc/%d/stat" % pid).rpartition(b") ")[2].split()
    return int(fields[3]) if len(fields) > 3 else -1


def _kib(path: str, *names: bytes) -> int:
    pattern = rb"^(?:%s):\s+(\d+) kB" % b"|".join(names)
    return sum(map(int, re.findall(pattern, _read(path), re.MULTILINE)))


def kill_marked(token: str) -> None:
    """Kill the processes that carry this mark in their environment (daemons).

    Looks again until none is left, a second at most.
    """
    mark = b"DOESITNAN_CHILD=" + token.encode()
    give_up_at = time.monotonic() + 1.0
    while time.monotonic() < give_up_at:
        # In this order: what is not within exec now shows its environment after.
        untold = [pid for pid in _processes() if _is_within_exec(pid)]
        marked = [p for p in _processes() if mark in _read("/proc/%d/environ" % p)]
        for pid in marked:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not marked and not untold:
            return
        time.sleep(0.001)


def _is_within_exec(pid: int) -> bool:
    """Whether it has a new memory in which the kernel has not put its environment.

    Its parent goes on before that: up to 16 ms were seen on busy cores.
    """
    if _read("/proc/%d/cmdline" % pid):
        return False
    fields = _read("/proc/%d/stat" % pid).rpartition(b") ")[2].split()
    if len(fields) < 7 or fields[0] in b"ZX":
        return False
    return not int(fields[6]) & 0x00200000  # PF_KTHREAD: never has one


# What a child may inherit: where libraries and devices are, never a secret.
INHERITED_ENV = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "CC",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
)


def plain_environment(
    scratch: str, extra: Mapping[str, str], compile_cache: str = ""
) -> Dict[str, str]:
    """The environment of a child; the folders that it names are made.

    `compile_cache`: where Inductor keeps what it built, if not below `scratch`. The
    checks of one run share it: most of a compilation is the same header each time.
    """
    env = child_environment(scratch, compile_cache)
    # Never a folder that a record names.
    for name in ("TMPDIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        os.makedirs(env[name], exist_ok=True)
    env.update(extra)
    return env


# What every child has, cold or warm.
CHILD_ENV = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    # Threads that wait do not spin: on a busy machine a check with two of them took
    # ten to a hundred times as long.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def child_environment(scratch: str, compile_cache: str = "") -> Dict[str, str]:
    """An allow-list of this process's environment, and folders below `scratch`."""
    env = {name: os.environ[name] for name in INHERITED_ENV if name in os.environ}
    # HOME moves into the scratch folder; a torch of `pip install --user` must not.
    home = os.path.expanduser("~")
    user_base = os.environ.get("PYTHONUSERBASE") or os.path.join(home, ".local")
    env.update(
        CHILD_ENV,
        PYTHONUSERBASE=user_base,
        HOME=scratch,
        TMPDIR=os.path.join(scratch, "tmp"),
        XDG_CACHE_HOME=os.path.join(scratch, "cache"),
        TORCHINDUCTOR_CACHE_DIR=compile_cache or os.path.join(scratch, "inductor"),
    )
    return env


def start_plain(
    python: str,
    repro: str,
    *,
    harness: str = "",
    on_line: Optional[Callable[[str, str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
) -> Start:
    """A Start without a sandbox: a child of this machine under `python` (tier E).

    `repro`: path of the source that `drive` gets. `on_line(check, stream, text)`. The
    child dies with the thread that called it.
    """
    harness = os.path.abspath(harness or __file__)
    repro = repro if repro == "-" else os.path.abspath(repro)
    # Removed when the Start that holds it is no longer used.
    shared = tempfile.TemporaryDirectory(prefix="doesitnan-cache-")

    def start(spec: CheckSpec) -> Report:
        def tell(stream: str, text: str) -> None:
            if on_line:
                on_line(spec.name, stream, text)

        scratch = tempfile.mkdtemp(prefix="doesitnan-")
        try:
            return supervise(
                child_command(python, harness, repro, spec),
                spec,
                cwd=scratch,
                env=plain_environment(scratch, spec.environment, shared.name),
                on_line=tell,
                cancelled=cancelled,
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    return start


def probe(python: str, timeout_s: float = PROBE_TIMEOUT_S) -> Report:
    """What torch an interpreter has: `hello` with identity, devices and facts."""
    spec = CheckSpec("requirements", timeout_s=timeout_s)
    report = start_plain(python, "-")(spec)
    if not report.failure and report.messages[0]["t"] == "raised":
        report.failure = "import"
    return report


# ---------------------------------------------------------------------------
# The child: imports torch, runs one check, reports what it returned
# ---------------------------------------------------------------------------


def run_child(argv: Sequence[str]) -> NoReturn:
    """`--child REPRO CHECK --fd N`: one check in this process; does not return."""
    parser = argparse.ArgumentParser()
    parser.add_argument("repro")
    parser.add_argument("check")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--trial", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--parameters", type=json.loads, default={})
    options = parser.parse_args(argv)
    source = "" if options.repro == "-" else _source_text(options.repro)
    become_check(
        options.fd,
        options.repro,
        source,
        options.check,
        options.trial,
        options.cpu,
        options.parameters,
    )


def become_check(
    fd: int,
    path: str,
    source: str,
    check: str,
    trial: int,
    cpu_s: int,
    parameters: Dict[str, Any],
) -> NoReturn:
    """Turn this process into one check; cold and warm children both end here.

    The nonce comes on standard input, the report goes to `fd`; the source lies at
    `path`.
    """
    send = _sender(fd)
    _confine(cpu_s)
    sys.argv = [path]
    report_check(send, path, source, check, trial, parameters)
    os._exit(0)


def _sender(fd: int) -> Callable[[Dict[str, Any]], None]:
    """Read the nonce from standard input, close that, and write frames to `fd`."""
    nonce = b""
    while not nonce.endswith(b"\n"):
        piece = os.read(0, 64)
        if not piece:
            break
        nonce += piece
    text = nonce.decode("ascii", "replace").strip()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(fd, False)

    def send(message: Dict[str, Any]) -> None:
        data = json.dumps(dict(message, n=text), allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(fd, data) :]

    return send


# More are no use to a repro, and on a big machine they exceed the limit of processes.
MOST_THREADS = 16


def settle_torch(torch: Any) -> None:
    """The same number of threads in every child, however it was started.

    Only where it is another one: setting it starts threads, in 8 ms with torch 1.13.
    """
    # A record that asks for a number of its own starts cold and keeps it.
    if not hasattr(torch, "set_num_threads") or "OMP_NUM_THREADS" in os.environ:
        return
    wanted = wanted_threads()
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)


def wanted_threads() -> int:
    """What `settle_torch` settles."""
    return min(usable_cpus(), MOST_THREADS)


def usable_cpus() -> int:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _confine(cpu_s: int) -> None:
    """Die with the parent, leave no core file, stop at last by processor time."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    # One byte: where cores go to a program, only that means that there is none.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    core = 1 if hard == resource.RLIM_INFINITY else min(hard, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if cpu_s and hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 10))
    faulthandler.enable()
    # The folder of this file holds no library; its names must not hide one.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]


def _source_text(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode("utf-8")


def report_check(
    send: Callable[[Dict[str, Any]], None],
    path: str,
    source: str,
    check: str,
    trial: int,
    parameters: Dict[str, Any],
) -> None:
    """Say hello, run the check, say what it returned or raised, say end."""
    header = parse_header(source) if source else None
    hello: Dict[str, Any] = {"t": "hello", "repro": source_digest(source)}
    if parameters:
        hello["parameters"] = parameters
    _offer_parameters(header, parameters)
    try:
        torch = importlib.import_module("torch")
        settle_torch(torch)
        hello["identity"] = identity(torch, header)
        hello["devices"], hello["facts"] = [], {}
        if check == "requirements":
            hello["devices"] = cuda_devices(torch, header)
            hello["facts"] = cheap_facts(torch, header, hello["identity"])
    except BaseException as error:
        send(dict(hello, identity={}, devices=[], facts={}))
        send(_raised(error))
        return _end(send)
    send(hello)
    try:
        if check == "requirements":
            observations = dear_facts(torch, header, hello, path, source)
        else:
            observations = getattr(_load(path, source), check)()
        send(
            {
                "t": "result",
                "check": check,
                "trial": trial,
                "observations": _wire(observations),
            }
        )
    except BaseException as error:
        send(_raised(error))
    return _end(send)


def _end(send: Callable[[Dict[str, Any]], None]) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue  # The repro replaced or closed it.
    ctypes.CDLL(None).fflush(None)
    send({"t": "end"})


def _raised(error: BaseException) -> Dict[str, Any]:
    """The message for an exception, whatever its methods do; logs its trace."""
    try:
        text = str(error)[:2000]
    except BaseException:
        text = "(its text cannot be shown)"
    try:
        trace = traceback.format_exc()
    except BaseException:
        trace = "%s: %s\n" % (type(error).__name__, text)
    try:
        sys.stderr.write(trace)
    except BaseException:
        os.write(2, trace.encode("utf-8", "replace"))
    return {"t": "raised", "type": type(error).__name__[:200], "text": text}


def _wire(value: Any) -> Any:
    """Observations for the channel; what JSON cannot hold is named by its type."""
    if isinstance(value, dict):
        return {str(key): _wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wire(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return encode(value)
    return {"$type": type(value).__name__[:80]}


def _offer_parameters(header: Optional[Header], chosen: Mapping[str, Any]) -> None:
    """`from doesitnan import parameter` for the repro of this process."""
    values = dict(defaults_of(header.parameters) if header else {}, **chosen)

    def parameter(name: str) -> Any:
        """The value of this run for a parameter that the header declares."""
        return values[name]

    module: Any = types.ModuleType("doesitnan")
    module.parameter = parameter
    sys.modules["doesitnan"] = module


def _load(path: str, source: str) -> types.ModuleType:
    module = types.ModuleType("repro")
    module.__file__ = path
    # Pickle, dynamo and inspect look a function's module up by its name.
    sys.modules["repro"] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


# Kept: a warm parent asks once for all its children.
@functools.lru_cache(maxsize=None)
def _dist_version(name: str) -> Optional[str]:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit(name: str) -> Optional[str]:
    """The commit that a distribution was installed from, where pip noted one."""
    try:
        text = importlib.metadata.distribution(name).read_text("direct_url.json")
        commit = json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    return str(commit) if commit else None


def _debian_name(torch: Any) -> str:
    """Debian's package names itself 1.13.0a0 whatever it is; ask dpkg."""
    place = str(getattr(torch, "__file__", ""))
    return _debian_release() if place.startswith(DEBIAN_PACKAGES) else ""


DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages/"


@functools.lru_cache(maxsize=None)
def _debian_release() -> str:
    query = ["dpkg-query", "-W", "-f", "${Version}", "python3-torch"]
    try:
        text = subprocess.run(query, stdout=subprocess.PIPE, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return ""
    numbers = ".".join(map(str, release(text.rpartition(":")[2])))
    return numbers and numbers + "-debian"


# --- packages: from runner/evidence/packages.py by `manage.py write_words` ---
_PACKAGES = ("numpy", "triton")
# --- end of the packages ---


def identity(torch: Any, header: Optional[Header]) -> Dict[str, Any]:
    """Which build this is (`build` of the evidence)."""
    names = [*_PACKAGES]
    if header:
        names += [parse_dependency(source)[0] for source in header.dependencies]
    raw, cuda = str(torch.__version__), torch.version.cuda
    try:
        cudnn = torch.backends.cudnn.version()
    except RuntimeError:
        cudnn = None  # The library that was found is not the one it was built with.
    return {
        "slug": build_slug(raw, cuda, _debian_name(torch)),
        "raw": raw,
        "dist": _dist_version("torch"),
        "git": getattr(torch.version, "git_version", None),
        "cuda": cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": None if cudnn is None else str(cudnn),
        "python": "%d.%d" % sys.version_info[:2],
        "platform": "%s-%s" % (sys.platform, platform.machine()),
        "machine": platform.machine(),
        "packages": {n: _dist_version(n) for n in sorted({*names} - {"torch"})},
    }


def cuda_devices(torch: Any, header: Optional[Header]) -> List[Dict[str, Any]]:
    """The devices torch sees; none are looked for on behalf of a CPU repro."""
    for_cpu = header is not None and header.device == "cpu"
    if for_cpu or not torch.cuda.is_available():
        return []
    driver = re.search(rb"\b\d{3}\.\d[\d.]*", _read("/proc/driver/nvidia/version"))
    # HIP imitates the numbers of CUDA, which say nothing there.
    is_hip = bool(getattr(torch.version, "hip", None))
    devices = []
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "class": "cuda",
                "name": device.name,
                "capability": "" if is_hip else "%d.%d" % (device.major, device.minor),
                "memory_mib": device.total_memory // MIB,
                "driver": driver.group().decode() if driver else None,
                # Since torch 2.5.
                "uuid": "GPU-%s" % device.uuid if hasattr(device, "uuid") else None,
            }
        )
    return devices


def cheap_facts(
    torch: Any, header: Optional[Header], known: Dict[str, Any]
) -> Dict[str, Any]:
    """What the requirements read, as far as it costs nothing but imports."""
    missing = []
    for name in header.stack if header else ():
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            missing.append(name)
            if isinstance(error, ModuleNotFoundError) and error.name == name:
                print("%s is not installed" % name, file=sys.stderr)
            else:
                _raised(error)
            continue
        version = getattr(module, "__version__", None) or _dist_version(name)
        commit = _commit(name)
        # Commits of a repository share their version number.
        named = "%s@%s" % (version, commit) if version and commit else version
        known["packages"][name] = named and str(named)
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "missing": missing,
        "packages": known["packages"],
    }


def dear_facts(
    torch: Any,
    header: Optional[Header],
    hello: Dict[str, Any],
    path: str,
    source: str,
) -> Dict[str, Any]:
    """What only trying can tell: compiler, workers, sockets, `requires()`.

    Nothing is tried once something cheaper is unmet.
    """
    facts: Dict[str, Any] = {}
    if header is None:
        return facts
    cheap = dict(hello["facts"], devices=hello["devices"])
    if unmet_requirement(dataclasses.replace(header, needs=()), cheap):
        return facts
    for need in header.needs:
        try:
            _ATTEMPTS[need](torch, header.device)
            facts[need] = True
        except Exception as error:
            _raised(error)
            print(_REMEDIES[need], file=sys.stderr)
            return dict(facts, **{need: False})
    if any(node.name == "requires" for node in _functions(source)):
        reason = _load(path, source).requires()
        if not isinstance(reason, (str, type(None))):
            raise TypeError("requires() returns None or a text")
        facts["said"] = reason or ""
    return facts


def try_compiler(torch: Any, device: str) -> None:
    """Compile and run something small, for real."""
    double = torch.compile(lambda x: (x * 2.0).sin())
    double(torch.ones(8, device=device))


def try_loader(torch: Any, device: str) -> None:
    data = importlib.import_module("torch.utils.data")
    seen = [int(item) for item in data.DataLoader([1, 2, 3], num_workers=1)]
    if seen != [1, 2, 3]:
        raise RuntimeError("the worker returned %r" % seen)


def try_loopback(torch: Any, device: str) -> None:
    dist = importlib.import_module("torch.distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dist.init_process_group(
        "gloo", init_method="tcp://127.0.0.1:%d" % port, rank=0, world_size=1
    )
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


_ATTEMPTS = {"compiler": try_compiler, "loader": try_loader, "loopback": try_loopback}
_REMEDIES = {
    "compiler": "torch.compile does not work under this build. On the CPU it needs a "
    "C++ compiler and the headers of Python: on Debian and Ubuntu the packages g++ and "
    "python3-dev. On CUDA it needs triton and a C compiler: the package gcc. Releases "
    "up to 2.10 also import setuptools: pip install 'setuptools<81'. A build whose "
    "path has a space does not compile either: Inductor does not quote it.",
    "loader": "A DataLoader with one worker process does not work under this build.",
    "loopback": "gloo cannot open a connection to 127.0.0.1 here.",
}


# ---------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------

# --- words: from kb/wording.py by `manage.py write_words` ---
# verdict -> words for the bug itself and for a model of it, English and Chinese
_WORDS = {
    "bug_present": (
        "✖ FAIL · bug reproduced",
        "✖ 未通过 · 缺陷已复现",
    ),
    "bug_absent": (
        "✔ PASS · bug not seen",
        "✔ 通过 · 未出现缺陷",
    ),
    "not_applicable": (
        "∅ N/A · cannot apply here",
        "∅ 不适用",
    ),
    "inconclusive": (
        "▲ NO VERDICT · {reason}",
        "▲ 无结论 · {reason}",
    ),
    "error": (
        "▲ ERROR · no verdict",
        "▲ 出错 · 无结论",
    ),
}
_MODEL_WORDS = {
    "bug_present": (
        "◇ MODEL · mechanism shown",
        "◇ 模型 · 机理重现",
    ),
    "bug_absent": (
        "◇ MODEL · mechanism not shown",
        "◇ 模型 · 机理未重现",
    ),
}
_MISBEHAVED = {
    "control": (
        "control misbehaved",
        "对照异常",
    ),
    "detector_silent": (
        "detector silent",
        "检测器未触发",
    ),
    "reference": (
        "reference misbehaved",
        "参照异常",
    ),
    "metric": (
        "metric unusable",
        "指标不可用",
    ),
}
_EXIT_STATUS = "Exit status: 0 bug absent, 1 bug present, 125 not applicable, 2 else."
# --- end of the words ---


def sentences(evidence: Mapping[str, Any]) -> Tuple[str, str]:
    """The verdict in words, English and Chinese."""
    verdict, reason = evidence["verdict"], evidence["reason"]
    words = dict(_WORDS)
    if evidence["repro"]["fidelity"] == "mechanism_model":
        words.update(_MODEL_WORDS)
    en, zh = words[verdict]
    if verdict == "inconclusive":
        what = _MISBEHAVED.get(reason, (reason, reason))
        return en.format(reason=what[0]), zh.format(reason=what[1])
    if evidence["hits"] is not None:
        count = "%d/%d" % (evidence["hits"], evidence["trials"])
        return "%s (%s)" % (en, count), "%s（%s）" % (zh, count)
    return "%s (%s)" % (en, reason), "%s（%s）" % (zh, reason)


def settings_of(evidence: Mapping[str, Any]) -> str:
    """The values of a run that are not the defaults: length=704, dtype=bfloat16."""
    given = evidence.get("parameters") or {}
    return ", ".join(
        "%s=%s" % (name, shown_value(decode(v))) for name, v in given.items()
    )


def _print_summary(evidence: Mapping[str, Any]) -> None:
    build, device = evidence["build"], evidence["device"]
    for sentence in sentences(evidence):
        print(sentence)
    raw, where = build["raw"] or "not found", device["name"] or ""
    print("torch %s · %s %s" % (raw, device["class"], where))
    if evidence.get("parameters"):
        print("%s: other values than the reviewed ones" % settings_of(evidence))
    marks = {"verified": "✔", "does_not_help": "✖", "untested": "◌"}
    for name, status in evidence["workarounds"].items():
        print("%s workaround %s: %s" % (marks[status], name, status))
    for name, outcome in evidence["refuted"].items():
        print("· refuted advice %s: %s" % (name, outcome))
    last = evidence["checks"][-1]
    if evidence["hits"] is None and last["log"]["text"]:
        print("%s:" % last["name"])
        for line in last["log"]["text"].splitlines()[-20:]:
            print("    " + line)
    print(evidence["digest"])


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="harness.py",
        description="Run a repro on the torch of this Python and judge it.",
        epilog=_EXIT_STATUS,
    )
    parser.add_argument("repro", metavar="REPRO.py")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the evidence as JSON, to standard output without FILE",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of a parameter; may stand several times",
    )
    parser.add_argument(
        "--trials", type=int, metavar="N", help="runs of trigger and workarounds"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter with the torch to test"
    )
    options = parser.parse_args(argv)
    if options.trials is not None and not 1 <= options.trials <= 100:
        parser.error("--trials must be from 1 to 100")
    return options


def _run_command(options: argparse.Namespace) -> int:
    source = _source_text(options.repro)
    header, _ = read_repro(source)
    if options.json not in (None, "-"):
        open(options.json, "a").close()  # Fail before the run, not after it.
    evidence = drive(
        source,
        start_plain(options.python, options.repro),
        name=os.path.splitext(os.path.basename(options.repro))[0],
        record=header.record,
        trials=options.trials,
        parameters=read_settings(header, options.set),
        on_event=lambda phase, text: print(phase, "·", text, file=sys.stderr),
    )
    text = dumps(evidence, indent=2)
    if options.json == "-":
        print(text)
    else:
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        _print_summary(evidence)
    return EXIT_CODES[evidence["verdict"]]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The command line; returns the exit status, which is never 1 by accident."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        if arguments[:1] == ["--child"]:
            run_child(arguments[1:])
        return _run_command(_arguments(arguments))
    except ContractError as error:
        for problem in error.errors:
            print("harness.py: %s" % problem, file=sys.stderr)
    except (OSError, UnicodeDecodeError) as error:
        print("harness.py: %s" % error, file=sys.stderr)
    except KeyboardInterrupt:
        print("harness.py: interrupted", file=sys.stderr)
    except Exception:
        traceback.print_exc()
    return 2


if __name__ == "__main__":
    sys.exit(main())
