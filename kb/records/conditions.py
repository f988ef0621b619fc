"""Conditions on parameters: `length % 128 = 64 and dtype in float16, bfloat16`.

What a precondition demands (`where` in issue.toml), and what a sweep shows. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AND = " and "
SIGNS = {"<=": "≤", ">=": "≥", "!=": "≠"}
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?"
TERM = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*)(?:\s*%\s*(?P<modulus>[1-9][0-9]{0,5}))?\s*"
    r"(?:(?P<op><=|>=|!=|=|<|>)\s*(?P<value>[^\s,=<>%]+)"
    r"|in\s+(?P<values>[^\s,=<>%]+(?:\s*,\s*[^\s,=<>%]+)+))"
)


class ConditionError(ValueError):
    """The text is no condition."""


@dataclass(frozen=True)
class Term:
    """One comparison. `op`: =, !=, <, <=, >, >= or in; `modulus`: 0 for none."""

    name: str
    op: str
    value: Any
    modulus: int = 0

    def __str__(self) -> str:
        left = f"{self.name} % {self.modulus}" if self.modulus else self.name
        if self.op == "in":
            return f"{left} ∈ {{{', '.join(map(shown, self.value))}}}"
        return f"{left} {SIGNS.get(self.op, self.op)} {shown(self.value)}"

    def holds(self, values: Mapping[str, Any]) -> bool:
        found = values[self.name]
        if self.modulus:
            found = found % self.modulus
        match self.op:
            case "in":
                return found in self.value
            case "=":
                return bool(found == self.value)
            case "!=":
                return bool(found != self.value)
            case "<":
                return bool(found < self.value)
            case "<=":
                return bool(found <= self.value)
            case ">":
                return bool(found > self.value)
        return bool(found >= self.value)


Condition = tuple[Term, ...]


def holds(condition: Condition, values: Mapping[str, Any]) -> bool:
    """Whether every term holds. Raises KeyError for a name without a value."""
    return all(term.holds(values) for term in condition)


def parse(text: str) -> Condition:
    """The terms of a condition. Raises ConditionError."""
    return tuple(parse_term(part) for part in text.split(AND))


def parse_term(text: str) -> Term:
    found = TERM.fullmatch(text.strip())
    if not found:
        raise ConditionError(
            f"{text.strip()!r} is none of: length >= 64, length % 128 = 64, "
            "dtype in float16, bfloat16"
        )
    modulus = int(found["modulus"] or 0)
    if found["values"]:
        listed = tuple(read(item.strip()) for item in found["values"].split(","))
        return Term(found["name"], "in", listed, modulus)
    value = read(found["value"])
    if isinstance(value, str) and (modulus or found["op"] not in ("=", "!=")):
        raise ConditionError(f"{text.strip()!r} compares a word as if it were a number")
    return Term(found["name"], found["op"], value, modulus)


def read(text: str) -> Any:
    if not re.fullmatch(NUMBER, text):
        return text
    return float(text) if set(text) & set(".e") else int(text)


def shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
