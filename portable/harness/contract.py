"""Reads the header (PEP 723) of a repro and the predicates in it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

from .fields import (
    NAME,
    REQUIRED,
    ContractError,
    Fields,
    Header,
    as_boolean,
    as_dependency,
    as_environment,
    as_lower_bound,
    as_scalar,
    as_string,
    as_table,
    as_text,
    integer_in,
    is_number,
    list_of,
    matching,
    number_in,
    one_of,
    same_kind,
    table_of,
)
from .parameters import as_formula, as_parameters, parameter_errors
from .toml import Toml, TomlError
from .values import DEVICES, FIDELITIES, NEEDS, decode, dumps, refuse_constant

_PREDICATE = re.compile(
    r"\s*([a-z][a-z0-9_]*)\s*(?:(==|!=|<=|>=|<|>)\s*(\S.*?)|\s(is_nonfinite))\s*\Z"
)


def _predicates(value: Any) -> Tuple[str, ...]:
    sources = value if isinstance(value, list) else [value]
    if not sources:
        raise ValueError("must not be empty")
    for source in sources:
        parse_predicate(as_text(source))
    return tuple(sources)


def header_block(source: str) -> Tuple[str, int]:
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
    text, first_line = header_block(source)
    try:
        table = Toml(text, first_line).parse()
    except TomlError as error:
        raise ContractError([str(error)]) from None
    errors: List[str] = []
    top = Fields(table, "", errors)
    python = top.take("requires-python", as_lower_bound, "")
    dependencies = top.take("dependencies", list_of(as_dependency), ())
    tool = Fields(top.take("tool", as_table, {}), "tool.", errors)
    own = tool.take("doesitnan", as_table, REQUIRED)
    tool.refuse_rest()
    top.refuse_rest()
    values = {} if own is REQUIRED else _own_fields(own, errors)
    if errors:
        raise ContractError(errors)
    return Header(dependencies=dependencies, requires_python=python, **values)


def _own_fields(table: Dict[str, Any], errors: List[str]) -> Dict[str, Any]:
    own = Fields(table, "tool.doesitnan.", errors)
    values = {
        "record": own.take("record", matching(r"NAN-\d{4,}", "NAN-0002"), None),
        "fidelity": own.take("fidelity", one_of(*FIDELITIES), REQUIRED),
        "device": own.take("device", one_of(*DEVICES), REQUIRED),
        "any_device": own.take("any_device", as_boolean, False),
        "min_capability": own.take("min_capability", matching(r"\d+\.\d+", "9.0"), ""),
        "min_memory_gib": own.take("min_memory_gib", number_in(0, 100_000), 0),
        "min_devices": own.take("min_devices", integer_in(1, 1024), 1),
        "needs": own.take("needs", list_of(one_of(*NEEDS)), ()),
        "stack": own.take("stack", table_of(r"[A-Za-z_][A-Za-z0-9_.]*", as_string), {}),
        "bug": own.take("bug", _predicates, REQUIRED),
        "match": own.take("match", table_of(NAME.pattern, number_in(0, 1)), {}),
        "match_waived": own.take("match_waived", as_text, ""),
        "expect": own.take("expect", table_of(NAME.pattern, as_scalar), {}),
        "trials": own.take("trials", integer_in(1, 100), 1),
        "timeout_s": own.take("timeout_s", number_in(1, 3600), 60),
        "memory_mib": own.take("memory_mib", integer_in(64, 1024 * 1024), 2048),
        "env": own.take("env", table_of(NAME.pattern, as_environment), {}),
        "parameters": own.take("parameters", as_parameters, {}),
        "bounds": own.take("bounds", table_of("memory_mib|time_s", as_formula), {}),
        "variants": own.take("variants", table_of("[a-z0-9_]{1,11}", as_table), {}),
    }
    own.refuse_rest()
    errors.extend(parameter_errors(values))
    if values["match"] and values["match_waived"]:
        errors.append("tool.doesitnan.match: stands beside match_waived; keep one")
    if values["any_device"] and (values["device"] != "cpu" or values["needs"]):
        errors.append(
            "tool.doesitnan.any_device: only where device is cpu, and no needs"
        )
    if values["device"] == "cpu":
        errors.extend(
            "tool.doesitnan.%s: only where device is cuda" % key
            for key in ("min_capability", "min_memory_gib", "min_devices")
            if key in table
        )
    return values


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
        literal = json.loads(text, parse_constant=refuse_constant)
    except ValueError:
        raise ValueError(
            '%r: the value must be a number, true, false or a "text"' % source
        ) from None
    if not isinstance(literal, (str, bool, int, float)):
        raise ValueError("%r: the value must be a single one" % source)
    if not is_number(literal) and op not in ("==", "!="):
        raise ValueError("%r: only == and != fit this value" % source)
    return Predicate(key, op, literal)


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
        if not numbers or not all(map(is_number, numbers)):
            raise MetricError("%s: %s is not a number" % (source, key))
        return not all(map(math.isfinite, numbers))
    if not same_kind(value, literal):
        raise MetricError("%s: %s is of another type: %s" % (source, key, dumps(value)))
    if is_number(value) and math.isnan(value):
        raise MetricError("%s: %s is NaN; use is_nonfinite" % (source, key))
    return _OPERATORS[op](value, literal)
