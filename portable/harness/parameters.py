"""Parameters: what a header declares, and the values of one run."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from .fields import (
    NAME,
    ContractError,
    Header,
    as_table,
    as_text,
    is_number,
    same_kind,
    table_of,
)
from .values import dumps, visible

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
    "unknown": "no parameter of this repro has that name; it has: %(names)s",
    "none": "this repro has no parameters",
    "choice": "must be one of %(choices)s",
    "whole": "must be a whole number from %(min)s to %(max)s",
    "number": "must be a number from %(min)s to %(max)s",
    "memory_mib": "this run would need about %(needed)s MiB of memory; the limit is "
    "%(limit)s MiB",
    "time_s": "this check would need about %(needed)s s; the limit is %(limit)s s",
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


def as_parameters(value: Any) -> Dict[str, Dict[str, Any]]:
    if len(as_table(value)) > MOST_PARAMETERS:
        raise ValueError("more than %d parameters" % MOST_PARAMETERS)
    return table_of(NAME.pattern, _parameter)(value)


def _parameter(value: Any) -> Dict[str, Any]:
    """A declaration in its full form: choices, or min and max; default; unit."""
    table = {"choices": value} if isinstance(value, list) else dict(as_table(value))
    unknown = sorted(table.keys() - {"choices", "min", "max", "default", "unit"})
    if unknown:
        raise ValueError("unknown key %s" % ", ".join(unknown))
    unit = {"unit": as_text(table["unit"])} if "unit" in table else {}
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
            is_number(item) and not _is_bounded(item)
        ):
            raise ValueError("%r cannot be a choice" % (item,))
    if len(set(value)) < len(value):
        raise ValueError("a choice stands twice")
    return list(value)


def _is_bounded(value: Any) -> bool:
    return is_number(value) and abs(value) <= 10**12


def as_formula(value: Any) -> str:
    """A sum of products of numbers and parameters: `40 + batch * length / 1024`."""
    if not isinstance(value, str) or not _FORMULA.match(value):
        raise ValueError("must be a sum of products of numbers and parameters")
    return value


def parameter_errors(values: Mapping[str, Any]) -> Iterator[str]:
    """Bounds and variants that do not fit the parameters."""
    where = "tool.doesitnan."
    parameters, bounds = values["parameters"], values["bounds"]
    unknown = False
    for key, formula in bounds.items():
        for name in re.findall(r"[a-z][a-z0-9_]*", formula):
            if not is_number(parameters.get(name, {}).get("default")):
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
    code, names = "unknown" if declared else "none", {"names": ", ".join(declared)}
    problems: List[Tuple[str, str, Dict[str, str]]] = [
        (shown_value(name), code, names) for name in given if name not in declared
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
        found = [item for item in choices if item == value and same_kind(item, value)]
        return "" if found else "choice"
    whole = _is_whole(parameter)
    fits = is_number(value) and parameter["min"] <= value <= parameter["max"]
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


def shown_settings(values: Mapping[str, Any]) -> str:
    """Such as `length=704 dtype=bfloat16`."""
    return " ".join("%s=%s" % (n, shown_value(v)) for n, v in values.items())


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
