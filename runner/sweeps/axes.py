"""What a sweep may go over: one or two parameters, each over values or within a range.

Pure. Which cells follow from it stands in `runner.sweeps.cells`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import product
from typing import Any

from kb.languages import Text
from portable import harness
from runner.sweeps.cells import Axis, most_cells
from runner.sweeps.sentences import NO_AXES, TOO_MANY

MOST_CELLS = 256
MOST_AXES = 2
RANGE = re.compile(r"([^:]+):([^:]+)(?::(x?)([^:]+))?")

# As a declaration, for steps: whole or not.
ANY_NUMBER = {"min": 0, "max": math.inf, "default": 1}


class BadAxes(Exception):
    """What no sweep goes over; `said` says why, in both languages."""

    def __init__(self, sentence: Text, **names: object) -> None:
        self.said = sentence.filled(**names)
        super().__init__(self.said["en"])


def too_many(cells: float) -> BadAxes:
    count = f"{cells:,.0f}" if cells < 10**12 else "10^12+"
    return BadAxes(TOO_MANY, cells=count, most=MOST_CELLS)


def read_axes(header: harness.Header, texts: Mapping[str, str]) -> dict[str, Axis]:
    """{parameter: {"values": […]}} or {"between": [low, high]}, as texts ask for it.

    `64,128` values, `*` all choices, `64:1024:64` with a step, `1:1024:x2` with a
    factor, `1..4096` the boundary. Raises ParameterError, which names the parameter,
    BadAxes.
    """
    if not 1 <= len(texts) <= MOST_AXES:
        raise BadAxes(NO_AXES)
    axes = {name: read_axis(header, name, text) for name, text in texts.items()}
    return checked(header, axes)


def read_axis(header: harness.Header, name: str, text: str) -> Axis:
    check_name(header, name)
    declared, text = header.parameters[name], text.strip()
    if text == "*" and "choices" in declared:
        return {"values": list(declared["choices"])}
    if ".." in text and "choices" not in declared:
        ends = [value_of(header, name, part) for part in text.split("..", 1)]
        return {"between": ends}
    if ":" in text:
        return {"values": stepped(header, name, text)}
    parts = text.split(",")
    if len(parts) > MOST_CELLS:
        raise too_many(len(parts))
    return {"values": [value_of(header, name, part) for part in parts]}


def stepped(header: harness.Header, name: str, text: str) -> list[Any]:
    found = RANGE.fullmatch(text)
    if not found or "choices" in header.parameters[name]:
        raise fault(name, "axis")
    low, high = (value_of(header, name, found[at]) for at in (1, 2))
    is_factor = bool(found[3])
    step = harness.read_value(ANY_NUMBER, found[4] or "1")
    if not isinstance(step, int | float) or not is_factor < step < math.inf:
        raise fault(name, "step")
    if low > high or (is_factor and low <= 0):
        raise fault(name, "order")
    count = math.log(high / low, step) if is_factor else (high - low) / step
    if not count < MOST_CELLS:
        raise too_many(count + 1)
    # A little more than the last, for steps that no float holds.
    places = range(math.floor(count * (1 + 1e-12) + 1e-9) + 1)
    values = [low * step**n if is_factor else low + n * step for n in places]
    whole = all(isinstance(value, int) for value in (low, high)) and (
        is_factor or isinstance(step, int)
    )
    rounded = [round(value) if whole else digits(value) for value in values]
    return [min(value, high) for value in dict.fromkeys(rounded)]


def digits(value: float) -> float:
    """Without the last digits, which only multiplying gave it."""
    return float(f"{value:.12g}")


def value_of(header: harness.Header, name: str, text: str) -> Any:
    """One value, in the type of the declaration. Raises ParameterError."""
    declared = header.parameters[name]
    value = harness.read_value(declared, text)
    harness.choose(header, {name: value})
    bounds = [declared.get(key, 0) for key in ("min", "max", "default")]
    is_whole = all(isinstance(bound, int) for bound in bounds)
    return value if "choices" in declared or is_whole else float(value)


def checked(header: harness.Header, axes: Mapping[str, Axis]) -> dict[str, Axis]:
    """The axes if they are allowed, in all their cells, however they were written.

    Raises ParameterError, BadAxes.
    """
    if not 1 <= len(axes) <= MOST_AXES:
        raise BadAxes(NO_AXES)
    for name, axis in axes.items():
        check_axis(header, name, axis)
    if most_cells(axes) > MOST_CELLS:
        raise too_many(most_cells(axes))
    ends = [axis.get("values") or axis["between"] for axis in axes.values()]
    for values in product(*ends):
        harness.choose(header, dict(zip(axes, values, strict=True)))
    return {name: dict(axis) for name, axis in axes.items()}


def check_axis(header: harness.Header, name: str, axis: Axis) -> None:
    check_name(header, name)
    key = next(iter(axis), "")
    values = axis.get(key)
    known = len(axis) == 1 and key in ("values", "between")
    if not known or not isinstance(values, list) or not values:
        raise fault(name, "axis")
    if len(values) > MOST_CELLS:
        raise too_many(len(values))
    for value in values:
        harness.choose(header, {name: value})
    if key == "values" and len(set(values)) < len(values):
        raise fault(name, "twice")
    if key == "between":
        is_number = "choices" not in header.parameters[name]
        if len(values) != 2 or not is_number:
            raise fault(name, "axis")
        if values[0] >= values[1]:
            raise fault(name, "order")


def check_name(header: harness.Header, name: str) -> None:
    if name not in header.parameters:
        harness.choose(header, {name: None})  # it says which there are


def fault(name: str, code: str) -> harness.ParameterError:
    return harness.ParameterError([(harness.shown_value(name), code, {})])
