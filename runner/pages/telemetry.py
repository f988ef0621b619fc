"""What was measured beside a run, as lines for its page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from runner.evidence.telemetry import GpuSummary, reading, summary
from runner.gpus.series import LIMIT
from runner.pages.plot import Plot, draw

MIN_SAMPLES = 3
# Far above any reading, and far below what a float cannot hold.
LARGEST = 1e12


def lines(telemetry: dict[str, Any]) -> Iterator[str]:
    """`telemetry` of an evidence body; fields that nothing told are left out."""
    found = summary(telemetry)
    for gpu in found.gpus:
        yield " · ".join(gpu_facts(gpu))
    if found.driver_error:
        yield _("No NVIDIA driver answered (%(error)s).") % {
            "error": found.driver_error
        }
    elif found.driver:
        yield _("NVIDIA driver %(version)s") % {"version": found.driver}
    if found.cpu_s:
        yield _("Processor %(seconds).1f s, memory at most %(peak)d MiB") % {
            "seconds": found.cpu_s,
            "peak": found.peak_mib,
        }


def plots(telemetry: dict[str, Any]) -> Iterator[tuple[str, Plot]]:
    """What was sampled of each GPU over the run, each with what it is called."""
    gpus = telemetry.get("devices") or []
    for gpu in gpus:
        series = gpu.get("series")
        if not isinstance(series, dict):
            continue
        name = str(reading(gpu.get("name")) or gpu["uuid"]) if len(gpus) > 1 else ""
        for key, words in sampled().items():
            values = samples(series.get("at"), series.get(key))
            if len(values) >= MIN_SAMPLES:
                places = [at for at, _value in values]
                drawn = draw(key, {"mem": [value for _at, value in values]}, places)
                yield " · ".join(filter(None, [name, words])), drawn


def samples(at: Any, values: Any) -> list[tuple[float, float]]:
    """(seconds, value) of what was read; evidence from elsewhere may hold anything."""
    if not isinstance(at, list) or not isinstance(values, list):
        return []
    pairs = zip(at[:LIMIT], values[:LIMIT], strict=False)
    found = [pair for pair in pairs if all(map(is_finite_number, pair))]
    return sorted(found, key=lambda pair: pair[0])


def is_finite_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < LARGEST


def sampled() -> dict[str, str]:
    return {
        "memory_used": _("memory, MiB"),
        "power": _("power, W"),
        "temperature": _("temperature, °C"),
        "sm_clock": _("SM clock, MHz"),
    }


def gpu_facts(gpu: GpuSummary) -> Iterator[str]:
    """Name, highest values, clocks and ECC errors of one GPU during the run."""
    yield gpu.name
    if gpu.memory_used is not None:
        yield _("memory at most %(used)s of %(total)s MiB") % {
            "used": gpu.memory_used,
            "total": "?" if gpu.memory_total is None else gpu.memory_total,
        }
    if gpu.power is not None:
        yield _("power at most %(watts).0f W") % {"watts": gpu.power}
    if gpu.temperature is not None:
        yield _("temperature at most %(degrees)s °C") % {"degrees": gpu.temperature}
    if gpu.clocks:
        low, high = gpu.clocks
        yield _("SM clock %(low)s to %(high)s MHz") % {"low": low, "high": high}
    if gpu.energy is not None:
        yield _("energy %(joules).0f J") % {"joules": gpu.energy}
    if gpu.throttle:
        yield _("clocks held back by %(reasons)s") % {
            "reasons": ", ".join(gpu.throttle)
        }
    if gpu.ecc_before is not None and gpu.ecc_after is not None:
        yield _("uncorrected ECC errors %(before)s before, %(after)s after") % {
            "before": gpu.ecc_before,
            "after": gpu.ecc_after,
        }
