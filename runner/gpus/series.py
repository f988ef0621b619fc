"""Samples of GPUs over the time of a run, thinned out so that they stay few. Pure.

Standard library: the watcher of a run uses it (runner.gpus.telemetry).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Per GPU. At the limit every second sample goes, and half as many are kept from then.
LIMIT = 240
DIGITS = 1


class Series:
    """Memory (MiB), power (W), temperature (°C) and SM clock (MHz) against seconds.

    A reading that NVML refused is null; a quantity it never gave has no list.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.stride: dict[str, int] = {}
        self.seen: dict[str, int] = {}

    def take(self, uuid: str, at_s: float, reading: Mapping[str, Any]) -> None:
        """Keep a sample taken `at_s` seconds after the start, or pass it by."""
        number = self.seen.get(uuid, 0)
        self.seen[uuid] = number + 1
        stride = self.stride.setdefault(uuid, 1)
        if number % stride:
            return
        rows = self.rows.setdefault(uuid, [])
        rows.append({"at": round(at_s, DIGITS + 1), **values_of(reading)})
        if len(rows) >= LIMIT:
            self.rows[uuid] = rows[::2]
            self.stride[uuid] = stride * 2

    def of(self, uuid: str) -> dict[str, list[Any]]:
        """{"at": [...], "memory_used": [...]}, equally long; {} without samples."""
        rows = self.rows.get(uuid, [])
        if not rows:
            return {}
        found = {name: [row[name] for row in rows] for name in rows[0]}
        return {
            name: values
            for name, values in found.items()
            if any(value is not None for value in values)
        }


def values_of(reading: Mapping[str, Any]) -> dict[str, float | None]:
    clocks = reading.get("clocks")
    return {
        "memory_used": number(reading.get("memory_used")),
        "power": number(reading.get("power")),
        "temperature": number(reading.get("temperature")),
        "sm_clock": number(clocks.get("sm") if isinstance(clocks, dict) else None),
    }


def number(value: Any) -> float | None:
    """A reading, or None where NVML answered with an error."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value, DIGITS) if is_number else None
