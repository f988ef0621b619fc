"""What the cells of a sweep show together: the simplest rule that explains every one.

Looked for among equality, thresholds, residues, ranges, and two of these about two
parameters; where none explains every cell, there is none. Nothing of it is typed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from kb.choices import Verdict
from kb.records.conditions import Condition, Term, holds

# A residue has to be seen so often before it is one.
LEAST_OF_A_RESIDUE = 2
MODULI = (*range(2, 17), 24, 32, 48, 64, 96, 128, 256, 512, 1024)
MOST_LISTED = 4

Cell = Mapping[str, Any]
Shown = tuple[bool, ...]


@dataclass(frozen=True)
class Boundary:
    """`bug` of `judged` cells show it; `rule`: where, or () where nothing explains it.

    Any of the rule's conditions suffices. The other cells have no verdict on the bug:
    it cannot apply there, or the check failed.
    """

    bug: int
    judged: int
    cannot: int = 0
    failed: int = 0
    rule: tuple[Condition, ...] = ()

    @property
    def clean(self) -> int:
        return self.judged - self.bug


def boundary_of(cells: Sequence[Cell]) -> Boundary:
    """`cells`: as `harness.judged_cell` makes them."""
    told = (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)
    judged = [cell for cell in cells if cell["verdict"] in told]
    shown = tuple(cell["verdict"] == Verdict.BUG_PRESENT for cell in judged)
    cannot = sum(cell["verdict"] == Verdict.NOT_APPLICABLE for cell in cells)
    failed = len(cells) - len(judged) - cannot
    places = [cell["at"] for cell in judged]
    rule = rule_for(places, shown) if 0 < sum(shown) < len(shown) else ()
    return Boundary(sum(shown), len(shown), cannot, failed, rule)


def rule_for(places: Sequence[Cell], shown: Shown) -> tuple[Condition, ...]:
    """The simplest rule that is true exactly in the cells that show it."""
    names = list(places[0])
    seen = [at for at, is_bug in zip(places, shown, strict=True) if is_bug]
    terms = {name: list(conditions_on(name, places, seen)) for name in names}
    for condition in sorted(chain.from_iterable(terms.values()), key=complexity):
        if explains((condition,), places, shown):
            return (condition,)
    if len(names) == 1:
        return ()
    return both(terms, places, shown, seen) or by_value(places, shown)


def explains(rule: Iterable[Condition], places: Iterable[Cell], shown: Shown) -> bool:
    rule = tuple(rule)
    return all(
        any(holds(part, at) for part in rule) == is_bug
        for at, is_bug in zip(places, shown, strict=True)
    )


def both(
    terms: Mapping[str, list[Condition]],
    places: Sequence[Cell],
    shown: Shown,
    seen: Sequence[Cell],
) -> tuple[Condition, ...]:
    """A condition on each of two parameters, the simplest pair that explains all.

    Only those that hold in every cell that shows it can be part of it.
    """
    sides = [
        [part for part in parts if all(holds(part, at) for at in seen)]
        for parts in terms.values()
    ]
    pairs = sorted(product(*sides), key=lambda pair: complexity(pair[0] + pair[1]))
    for first, second in pairs:
        if explains((first + second,), places, shown):
            return (first + second,)
    return ()


def by_value(places: Sequence[Cell], shown: Shown) -> tuple[Condition, ...]:
    """For each of a few words of one parameter a condition on the other."""
    for name in places[0]:
        values = list(dict.fromkeys(at[name] for at in places))
        if len(values) > MOST_LISTED or not isinstance(values[0], str):
            continue
        found: dict[Condition, list[Any]] = {}
        for value in values:
            part = within(name, value, places, shown)
            if part is None:
                break
            if part != (NOWHERE,):
                found.setdefault(part, []).append(value)
        else:
            return tuple((listed(name, of), *part) for part, of in found.items())
    return ()


NOWHERE = Term("", "=", None)


def within(
    name: str, value: Any, places: Sequence[Cell], shown: Shown
) -> Condition | None:
    """The condition on the other parameter; () for everywhere, None where none is."""
    rows = [
        ({key: of for key, of in at.items() if key != name}, is_bug)
        for at, is_bug in zip(places, shown, strict=True)
        if at[name] == value
    ]
    here, bugs = [at for at, _ in rows], tuple(is_bug for _, is_bug in rows)
    if not any(bugs) or all(bugs):
        return () if any(bugs) else (NOWHERE,)
    rule = rule_for(here, bugs)
    return rule[0] if rule else None


# --- what may be said of one parameter ----------------------------------------
def conditions_on(
    name: str, places: Iterable[Cell], seen: Sequence[Cell]
) -> Iterator[Condition]:
    """Every condition of these forms that a sweep's values can tell apart.

    `seen`: the cells that show it. Of ranges only the narrowest that holds all of
    them: no other can hold there and in as few besides.
    """
    values = list(dict.fromkeys(at[name] for at in places))
    are_numbers = all(is_number(value) for value in values)
    for value in values:
        # At the upper end a threshold says the same, and more of what is beyond.
        if not are_numbers or value != max(values):
            yield (Term(name, "=", value),)
            yield (Term(name, "!=", value),)
    if not are_numbers:
        yield from words(name, values)
        return
    ordered = sorted(values)
    for value in ordered:
        yield (Term(name, "<=", value),)
        yield (Term(name, ">=", value),)
    low, high = (of(at[name] for at in seen) for of in (min, max))
    if low < high:
        yield Term(name, ">=", low), Term(name, "<=", high)
    if all(isinstance(value, int) for value in ordered):
        yield from residues(name, ordered)


def words(name: str, values: Sequence[Any]) -> Iterator[Condition]:
    """Two to four of more words."""
    if len(values) > 8:
        return
    for chosen in product((False, True), repeat=len(values)):
        if 2 <= sum(chosen) <= min(MOST_LISTED, len(values) - 1):
            kept = zip(values, chosen, strict=True)
            yield (listed(name, [value for value, is_in in kept if is_in]),)


def listed(name: str, values: Sequence[Any]) -> Term:
    if len(values) == 1:
        return Term(name, "=", values[0])
    return Term(name, "in", tuple(values))


def residues(name: str, values: Sequence[int]) -> Iterator[Condition]:
    """Of small moduli, each seen at least twice and in contrast to another."""
    for modulus in MODULI:
        seen = [value % modulus for value in values]
        for residue in dict.fromkeys(seen):
            if LEAST_OF_A_RESIDUE <= seen.count(residue) < len(seen):
                yield (Term(name, "=", residue, modulus),)
                yield (Term(name, "!=", residue, modulus),)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


ORDER = {"=": 1, "<=": 2, ">=": 2, "in": 3, "!=": 3}


def complexity(condition: Condition) -> tuple[int, int]:
    """Few terms before many, equality before the rest, small moduli before large."""
    weight = sum(ORDER[term.op] + 3 * bool(term.modulus) for term in condition)
    weight += 4 * (len(condition) - 1)
    return weight, sum(term.modulus for term in condition)
