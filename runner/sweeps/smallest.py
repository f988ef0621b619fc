"""The smallest parameters that still show a bug, for a minimal repro. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner.sweeps.cells import middle

# Making one parameter smaller may let another follow; it ends once none does.
MOST_ROUNDS = 4

Values = dict[str, Any]


def numbers(declared: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The parameters that can be made smaller, in the order of their declaration."""
    return [name for name, facts in declared.items() if "choices" not in facts]


def smallest(
    declared: Mapping[str, Mapping[str, Any]], shows: Callable[[Values], bool]
) -> Values:
    """Values from which no parameter alone was made smaller with the bug still there.

    `shows`: whether the bug is there at all these values; it is there at the defaults.
    A parameter is halved towards its minimum, so a bug that comes and goes in between
    may have a smaller value that was not tried.
    """
    found = {name: facts["default"] for name, facts in declared.items()}
    for _round in range(MOST_ROUNDS):
        before = dict(found)
        for name in numbers(declared):
            found[name] = lowered(name, declared[name]["min"], found, shows)
        if found == before:
            break
    return found


def lowered(
    name: str, low: Any, values: Values, shows: Callable[[Values], bool]
) -> Any:
    """The smallest value of one parameter that halving finds, the others unchanged."""
    high = values[name]
    if low >= high:
        return high
    if shows({**values, name: low}):
        return low
    while (value := middle(low, high)) is not None:
        if shows({**values, name: value}):
            high = value
        else:
            low = value
    return high
