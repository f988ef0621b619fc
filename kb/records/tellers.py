"""What tells one cause of a symptom from another: predicates over named facts. Pure.

`trainer == "ultralytics" and card ~ "GTX 16"`: a fact, an operator, a text or a number
as in JSON; `~` holds where a value contains the text, whatever its case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

AND = re.compile(r"\s+and\s+(?=[a-z_]+\s*(?:==|!=|~|[<>]))")
# The facts of a paste (kb.lookup.facts) that are numbers, and all of them.
NUMBERS = ("finite_steps", "growth", "last_loss", "last_grad_norm", "last_loss_scale")
FACTS = (
    *("trainer", "method", "device", "dtype", "mode", "card", "arch", "package"),
    *("loss", "grad_norm", "loss_scale", "first_bad", "onset", "told"),
    *("call", "named", "error", "frame", "node", "probe", "law", "says"),
    *NUMBERS,
)
NUMBER = re.compile(r"-\d+")
Values = tuple[str, ...] | float | str
PREDICATE = re.compile(r"\s*([a-z_]+)\s*(==|!=|~|<=|>=|<|>)\s*(\S.*?)\s*")
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


class Known(Protocol):
    """Facts by name; () or nothing where a fact is not known."""

    def __getitem__(self, name: str) -> Values: ...


@dataclass(frozen=True)
class Term:
    fact: str
    op: str
    value: Any

    def holds(self, facts: Known) -> bool | None:
        """None where the facts say nothing of it."""
        known = facts[self.fact]
        if isinstance(known, str):
            return bool(said(self.value).search(known))
        if isinstance(known, float | int):
            return self.of_number(known)
        if not known:
            return None
        if self.op == "~":
            return any(str(self.value).lower() in value.lower() for value in known)
        return (self.value in known) == (self.op == "==")

    def of_number(self, known: float) -> bool:
        if self.op in ORDER:
            return bool(ORDER[self.op](known, self.value))
        return bool(abs(known - self.value) < 1e-4) == (self.op == "==")


@lru_cache(maxsize=2000)
def said(value: str) -> re.Pattern[str]:
    """The text where a word begins: "iou" is not said by "various", nor -100 by
    "2024-1001" or "lr-100".
    """
    if NUMBER.fullmatch(value):
        return re.compile(rf"(?<![a-z0-9.]){re.escape(value)}(?!\d)")
    start = "(?<![a-z])" if value[:1].isascii() and value[:1].isalpha() else ""
    return re.compile(start + re.escape(value.lower()))


@lru_cache(maxsize=2000)
def parse(source: str) -> tuple[Term, ...]:
    """Terms that must all hold. Raises ValueError, which says what is wrong."""
    return tuple(parse_term(part) for part in AND.split(source))


def parse_term(source: str) -> Term:
    found = PREDICATE.fullmatch(source)
    if not found:
        raise ValueError(f'{source!r} is none of: trainer == "trl", card ~ "GTX 16"')
    fact, op, literal = found.groups()
    if fact not in FACTS:
        raise ValueError(f"{fact} is no fact; there are {', '.join(FACTS)}")
    try:
        value = json.loads(literal)
    except ValueError:
        raise ValueError(f'{literal} must be a number or a "text"') from None
    wants_number = fact in NUMBERS
    if isinstance(value, bool) or isinstance(value, str) == wants_number:
        raise ValueError(
            f"{fact} is compared with a {'number' if wants_number else 'text'}"
        )
    if (op in ORDER and not wants_number) or (op == "~" and wants_number):
        raise ValueError(f"{op} does not fit {fact}")
    if fact == "says" and op != "~":
        raise ValueError("says is asked with ~")
    return Term(fact, op, value)


def holds(source: str, facts: Known) -> bool | None:
    """True where every term holds; False where one does not; else None."""
    found = [term.holds(facts) for term in parse(source)]
    if False in found:
        return False
    return None if None in found else True
