"""What nan_probe.py prints, read as a log: the place of the first non-finite value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

HEADER = re.compile(r"nan_probe \d{1,3}: first non-finite value")
LINE = re.compile(
    r"(direction|op|dtype|value|rerun|compiled|step|module|shape):\s(.{1,300})"
)
OVERLOAD = re.compile(r"(?<=Backward)\d{1,3}$")
NANS = re.compile(r"nan [1-9]")
OP = re.compile(r"[A-Za-z_][\w:.]{1,120}")


@dataclass
class Probe:
    """Facets by the line they stood on, and messages as torch would word them."""

    facets: dict[str, int] = field(default_factory=dict)
    messages: list[tuple[int, str]] = field(default_factory=list)


def is_probe(texts: Iterable[str]) -> bool:
    return any(HEADER.search(text) for text in texts)


def probe_lines(lines: Iterable[tuple[int, str]]) -> Probe:
    """Facets of the report: nan_in_<Op>Backward, probe_backward, dtype_bfloat16, …"""
    report = Probe()
    inside = False
    fields: dict[str, tuple[int, str]] = {}
    for number, text in lines:
        inside = inside or bool(HEADER.search(text))
        line = LINE.match(text) if inside else None
        if line:
            fields.setdefault(line[1], (number, line[2].strip()))
    state = "nan" if NANS.match(fields.get("value", (0, ""))[1]) else "inf"
    for name, (number, value) in fields.items():
        for facet in facets_of(name, value, state):
            report.facets[facet] = number
    number, value = fields.get("op", (0, ""))
    op = OP.match(value)
    if op and "Backward" in op[0]:
        message = f"Function '{op[0]}' returned {state} values in its output."
        report.messages.append((number, message))
    return report


def facets_of(name: str, value: str, state: str) -> list[str]:
    word = value.split()[0].lower().rstrip(",;") if value.split() else ""
    if name == "direction" and word in ("forward", "backward"):
        return [f"probe_{word}"]
    if name == "op":
        op = OP.match(value)
        return [f"{state}_in_{OVERLOAD.sub('', op[0])}"] if op else []
    if name == "dtype":
        return [f"dtype_{word.removeprefix('torch.')}"]
    if name == "rerun" and word in ("same", "rounding", "differs"):
        return [f"rerun_{word}"]
    return ["compiled"] if (name, word) == ("compiled", "yes") else []
