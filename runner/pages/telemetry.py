"""The telemetry of a run, as lines for its page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from runner.evidence.telemetry import GpuSummary, summary


def lines(telemetry: dict[str, Any]) -> Iterator[str]:
    """Lines for the `telemetry` of an evidence body, without missing fields."""
    telemetry_summary = summary(telemetry)
    for gpu in telemetry_summary.gpus:
        yield " · ".join(gpu_facts(gpu))
    if telemetry_summary.driver_error:
        yield _("No NVIDIA driver answered (%(error)s).") % {
            "error": telemetry_summary.driver_error
        }
    elif telemetry_summary.driver:
        yield _("NVIDIA driver %(version)s") % {"version": telemetry_summary.driver}
    if telemetry_summary.cpu_s:
        yield _("Processor %(seconds).1f s, memory at most %(peak)d MiB") % {
            "seconds": telemetry_summary.cpu_s,
            "peak": telemetry_summary.peak_mib,
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
