"""Parses the GPU and processor telemetry of an evidence object.

Readings have no fixed form: each value may be missing or {"error": name}. Units:
MiB, W, J, MHz, degrees Celsius.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.gpus.vendor import is_error


@dataclass(frozen=True)
class GpuSummary:
    """Maxima of one GPU during a run; None where there is no reading."""

    name: str
    memory_used: Any
    memory_total: Any
    power: float | None
    temperature: Any
    clocks: Sequence[Any] | None  # lowest, highest
    energy: float | None
    throttle: Sequence[str]
    ecc_before: Any
    ecc_after: Any


@dataclass(frozen=True)
class Summary:
    """`driver`: its version; `driver_error`: why its library did not answer."""

    gpus: Sequence[GpuSummary]
    driver: Any
    driver_error: str
    cpu_s: float
    peak_mib: float


def summary(telemetry: dict[str, Any]) -> Summary:
    """Summarise telemetry in the form that `runner.gpus.telemetry` writes.

    Raises TypeError, ValueError, KeyError, AttributeError or IndexError for any other.
    """
    driver: Any = telemetry.get("driver")
    cpu = telemetry.get("cpu") or {}
    # A run that ended before its first check used nothing that was counted.
    used = bool(cpu.get("cpu_s"))
    return Summary(
        gpus=[gpu_summary(gpu) for gpu in telemetry.get("devices") or []],
        driver=reading(driver),
        driver_error=str(driver["error"]) if is_error(driver) else "",
        cpu_s=number(cpu["cpu_s"]) if used else 0,
        peak_mib=number(cpu["peak_mib"]) if used else 0,
    )


def gpu_summary(gpu: dict[str, Any]) -> GpuSummary:
    during = gpu.get("during") or {}
    power = reading(during.get("power"))
    clocks = reading((during.get("clocks") or {}).get("sm")) or None
    energy = reading(gpu.get("energy_used"))
    return GpuSummary(
        name=str(reading(gpu.get("name")) or gpu["uuid"]),
        memory_used=reading(during.get("memory_used")),
        memory_total=reading(gpu.get("memory_total")),
        power=None if power is None else number(power),
        temperature=reading(during.get("temperature")),
        clocks=clocks and (clocks[0], clocks[1]),
        energy=None if energy is None else number(energy),
        throttle=texts(reading(during.get("throttle")) or ()),
        ecc_before=uncorrected(gpu.get("before")),
        ecc_after=uncorrected(gpu.get("after")),
    )


def uncorrected(state: Any) -> Any:
    counts = reading((reading(state) or {}).get("ecc")) or {}
    return reading(counts.get("uncorrected_volatile"))


def reading(value: Any) -> Any:
    """The value, or None where the library returned an error."""
    return None if is_error(value) else value


def number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


def texts(values: Any) -> Sequence[str]:
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{values!r} are no texts")
    return tuple(values)
