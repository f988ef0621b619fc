"""What a figure is, and the table of docs/figures.md that they are printed in."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable
from typing import Any

Figure = dict[str, Any]
HEAD = ("figure", "value", "target", "machine", "how")


def timed(work: Callable[[], Any]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of this process that a call takes: the same on a busy machine."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def share_of(values: list[float], part: float) -> float:
    """The value below which `part` of them lie: .95 for the p95."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def figure(
    name: str, value: float | None, unit: str, target: str = "", ok: bool | None = None
) -> Figure:
    """One line of the table. `target`, ">= 50" or "<= 1", judges the value.

    What was not measured (None) is not ok; `ok` stands for targets of other forms.
    """
    if target and value is not None and ok is None:
        ok = meets(target, value)
    return {
        "name": name,
        "value": round(value, 4) if value is not None else None,
        "unit": unit,
        "target": target or None,
        "ok": bool(value is not None and ok) if target else None,
    }


def meets(target: str, value: float) -> bool:
    sign, _, bound = target.partition(" ")
    if sign == "==":
        return value == float(bound)
    return value >= float(bound) if sign == ">=" else value <= float(bound)


def table(figures: Iterable[Figure], section: str) -> str:
    """As in docs/figures.md; `section` of the bench is how they were measured."""
    rows = [HEAD]
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    for item in figures:
        value = "not measured" if item["value"] is None else f"{item['value']:g}"
        target = (item["target"] or "") + ", **missed**" * (item["ok"] is False)
        value = f"{value} {item['unit']}".rstrip()
        rows.append((item["name"], value, target, machine, f"bench {section}"))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---|---|---|---|---|", *lines[1:]])
