"""Time series of GPU readings over a run, downsampled to a bounded length. Pure.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Samples per GPU. At the limit every second one is dropped and the stride doubles.
LIMIT = 240
DIGITS = 1


class Series:
    """Memory (MiB), power (W), temperature (°C) and SM clock (MHz) against seconds.

    A reading that was refused is null; a quantity it never gave has no list.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.stride: dict[str, int] = {}
        self.seen: dict[str, int] = {}

    def take(self, uuid: str, at_s: float, reading: Mapping[str, Any]) -> None:
        """Add a sample taken `at_s` seconds after the start, or skip it."""
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
        """{"at": [...], "memory_used": [...]} of equal length; {} without samples."""
        rows = self.rows.get(uuid, [])
        if not rows:
            return {}
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return {
            name: values
            for name, values in columns.items()
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
    """A reading, or None where it is an error."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value, DIGITS) if is_number else None
