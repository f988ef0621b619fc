"""What the GPU and processor telemetry of an evidence object says, as lines.

Readings have no fixed form: each value may be missing or {"error": name}. Units:
MiB, W, J, MHz, degrees Celsius.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.utils.translation import gettext as _

from runner.gpus.nvml import is_error


def lines(telemetry: dict[str, Any]) -> Iterator[str]:
    """One for each GPU, for the driver and the processor, without missing fields.

    Raises TypeError, ValueError, KeyError, AttributeError or IndexError for a form
    that `runner.gpus.telemetry` does not write.
    """
    for gpu in telemetry.get("devices") or []:
        yield " · ".join(gpu_facts(gpu))
    driver: Any = telemetry.get("driver")
    # NVML's answer on a machine without a driver tells nothing of the run.
    if is_error(driver) and driver["error"] != "LibraryNotFound":
        yield _("The NVIDIA driver gave an error: %(error)s.") % driver
    elif driver and not is_error(driver):
        yield _("NVIDIA driver %(version)s") % {"version": driver}
    cpu = telemetry.get("cpu") or {}
    # A run that ended before its first check used nothing that was counted.
    if cpu.get("cpu_s"):
        yield _("Processor %(seconds).1f s, memory at most %(peak)d MiB") % {
            "seconds": number(cpu["cpu_s"]),
            "peak": number(cpu["peak_mib"]),
        }


def gpu_facts(gpu: dict[str, Any]) -> Iterator[str]:
    """Name, highest values, clocks and ECC errors of one GPU during the run."""
    during = gpu.get("during") or {}
    yield str(reading(gpu.get("name")) or gpu["uuid"])
    memory_used = reading(during.get("memory_used"))
    if memory_used is not None:
        total = reading(gpu.get("memory_total"))
        yield _("memory at most %(used)s of %(total)s MiB") % {
            "used": memory_used,
            "total": "?" if total is None else total,
        }
    power = reading(during.get("power"))
    if power is not None:
        yield _("power at most %(watts).0f W") % {"watts": number(power)}
    temperature = reading(during.get("temperature"))
    if temperature is not None:
        yield _("temperature at most %(degrees)s °C") % {"degrees": temperature}
    clocks = reading((during.get("clocks") or {}).get("sm"))
    if clocks:
        facts = {"low": clocks[0], "high": clocks[1]}
        yield _("SM clock %(low)s to %(high)s MHz") % facts
    energy = reading(gpu.get("energy_used"))
    if energy is not None:
        yield _("energy %(joules).0f J") % {"joules": number(energy)}
    throttle = texts(reading(during.get("throttle")) or ())
    if throttle:
        yield _("clocks held back by %(reasons)s") % {"reasons": ", ".join(throttle)}
    before, after = (uncorrected(gpu.get(name)) for name in ("before", "after"))
    if before is not None and after is not None:
        yield _("uncorrected ECC errors %(before)s before, %(after)s after") % {
            "before": before,
            "after": after,
        }


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
