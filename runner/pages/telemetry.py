"""What was measured beside a run, as lines for its page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from runner.gpus.devices import is_error
from runner.gpus.series import LIMIT
from runner.pages.plot import Plot, draw

MIN_SAMPLES = 3
# Far above any reading, and far below what a float cannot hold.
LARGEST = 1e12


def lines(telemetry: dict[str, Any]) -> Iterator[str]:
    """`telemetry` of an evidence body; fields that nothing told are left out."""
    for gpu in telemetry.get("devices") or []:
        yield " · ".join(gpu_facts(gpu))
    driver: Any = telemetry.get("driver")
    if is_error(driver):
        yield _("No NVIDIA driver answered (%(error)s).") % {"error": driver["error"]}
    elif driver:
        yield _("NVIDIA driver %(version)s") % {"version": driver}
    cpu = telemetry.get("cpu") or {}
    # A run that ended before its first check used nothing that was counted.
    if cpu.get("cpu_s"):
        yield _("Processor %(seconds).1f s, memory at most %(peak)d MiB") % {
            "seconds": cpu["cpu_s"],
            "peak": cpu["peak_mib"],
        }


def plots(telemetry: dict[str, Any]) -> Iterator[tuple[str, Plot]]:
    """What was sampled of each GPU over the run, each with what it is called."""
    gpus = telemetry.get("devices") or []
    for gpu in gpus:
        series = gpu.get("series")
        if not isinstance(series, dict):
            continue
        name = str(told(gpu.get("name")) or gpu["uuid"]) if len(gpus) > 1 else ""
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


def gpu_facts(gpu: dict[str, Any]) -> Iterator[str]:
    """Name, highest values, clocks and ECC errors of one GPU during the run."""
    yield str(told(gpu.get("name")) or gpu["uuid"])
    during = gpu.get("during") or {}
    used, total = told(during.get("memory_used")), told(gpu.get("memory_total"))
    if used is not None:
        yield _("memory at most %(used)s of %(total)s MiB") % {
            "used": used,
            "total": "?" if total is None else total,
        }
    if (power := told(during.get("power"))) is not None:
        yield _("power at most %(watts).0f W") % {"watts": power}
    if (degrees := told(during.get("temperature"))) is not None:
        yield _("temperature at most %(degrees)s °C") % {"degrees": degrees}
    clocks = told((during.get("clocks") or {}).get("sm"))
    if clocks:
        yield _("SM clock %(low)s to %(high)s MHz") % {
            "low": clocks[0],
            "high": clocks[1],
        }
    if (joules := told(gpu.get("energy_used"))) is not None:
        yield _("energy %(joules).0f J") % {"joules": joules}
    if slowed := told(during.get("throttle")):
        yield _("clocks held back by %(reasons)s") % {"reasons": ", ".join(slowed)}
    before, after = (uncorrected(gpu.get(when)) for when in ("before", "after"))
    if before is not None and after is not None:
        yield _("uncorrected ECC errors %(before)s before, %(after)s after") % {
            "before": before,
            "after": after,
        }


def uncorrected(reading: Any) -> Any:
    counts = told((told(reading) or {}).get("ecc")) or {}
    return told(counts.get("uncorrected_volatile"))


def told(value: Any) -> Any:
    """The value, or None where NVML gave an error instead."""
    return None if is_error(value) else value
