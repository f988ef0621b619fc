"""What nan_probe.py costs a training step: ratios inside one process of each torch."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from tests import TESTS
from tests.bench.figures import Figure, figure
from tests.support.probes import PROBE, pythons

COST = TESTS / "probe" / "cost.py"


def figures() -> list[Figure]:
    return [row for python in pythons() for row in of_torch(python)]


def of_torch(python: str) -> list[Figure]:
    print(f"probe: {python}", file=sys.stderr)
    done = subprocess.run(
        [python, str(COST), str(PROBE.parent)],
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    found = json.loads(done.stdout)
    return [
        row
        for size, times in found["sizes"].items()
        for row in of_size(f"step of a {size} transformer, {found['torch']}", times)
    ]


def of_size(name: str, found: dict[str, list[list[float]]]) -> list[Figure]:
    off = [sum(block) for block in found["off"]]
    tenth = [sum(block) for block in found["tenth"]]
    each = [sum(block) for block in found["each"]]
    between = [
        statistics.median(watched[1:]) / statistics.median(block)
        for watched, block in zip(found["tenth"], found["off"], strict=True)
    ]
    step = statistics.median(off) / len(found["off"][0])
    return [
        figure(f"{name}: without the probe", 1000 * step, "ms"),
        figure(f"{name}: every tenth step watched", ratio(tenth, off), "x", "<= 2"),
        figure(f"{name}: every step watched", ratio(each, off), "x"),
        figure(f"{name}: between watched steps", statistics.median(between), "x"),
    ]


def ratio(these: list[float], those: list[float]) -> float:
    """The median of pairs that ran one after the other."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))
