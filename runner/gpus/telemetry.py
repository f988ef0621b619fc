"""GPU telemetry before, during and after a run, and the health check of its GPUs.

Fields and units as in runner.gpus.nvml; each is a value or {"error": name}. A thread
of the runner samples, so that the run cannot tamper with its telemetry. Standard
library and pynvml.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runner.gpus.devices import system_errors
from runner.gpus.nvml import Gpu, GpuError, Nvidia, is_error

SAMPLE_S = 0.2
# A driver frees the memory of a dead process within moments, not at once.
SETTLE_S = 10.0
SETTLE_POLL_S = 0.1
# The driver keeps some memory after a first context; a leaked context is far larger.
TOLERANCE_MIB = 128
EXTREMES = ("memory_used", "power", "temperature")


class Problem(NamedTuple):
    """Why a run on this GPU is no evidence: the contract's reason, and details."""

    reason: str
    uuid: str
    text: str


class GpuMonitor:
    """Reads some GPUs before, during and after the `with` block of a run.

    Afterwards `report()` and `problem()` describe it. Errors of its library are
    recorded, not raised.
    """

    def __init__(self, nvidia: Nvidia, uuids: Sequence[str]) -> None:
        self.nvidia = nvidia
        self.uuids = tuple(uuids)
        self.system: dict[str, Any] = {}
        self.identities: dict[str, dict[str, Any]] = {}
        self.before: dict[str, dict[str, Any]] = {}
        self.after: dict[str, dict[str, Any]] = {}
        self.extremes: dict[str, dict[str, Any]] = {}
        self.samples = 0
        self._ending = threading.Event()
        self._sampler: threading.Thread | None = None

    def __enter__(self) -> GpuMonitor:
        self.system = self._system()
        self.identities = self._read(self.nvidia.identity)
        self.before = self._read(self.nvidia.state)
        for uuid, reading in self.before.items():
            merge_sample(self.extremes.setdefault(uuid, {}), reading)
        if self.before:
            self._sampler = threading.Thread(target=self._sample, daemon=True)
            self._sampler.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ending.set()
        if self._sampler:
            self._sampler.join()
        self.after = self._read(self.nvidia.state) if self.before else {}
        deadline = time.monotonic() + SETTLE_S
        while self._unsettled() and time.monotonic() < deadline:
            time.sleep(SETTLE_POLL_S)
            self.after = self._read(self.nvidia.state)

    def _system(self) -> dict[str, Any]:
        try:
            with self.nvidia.session():
                return self.nvidia.system()
        except GpuError as error:
            return system_errors(error)

    def _read(self, what: Callable[[Gpu], dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """{uuid: fields}, without GPUs that are no longer listed."""
        if not self.uuids:
            return {}
        try:
            with self.nvidia.session():
                mine = (gpu for gpu in self.nvidia.gpus() if gpu.uuid in self.uuids)
                return {gpu.uuid: what(gpu) for gpu in mine}
        except GpuError:
            return {}

    def _sample(self) -> None:
        while True:
            for uuid, reading in self._read(self.nvidia.load).items():
                merge_sample(self.extremes.setdefault(uuid, {}), reading)
            self.samples += 1
            if self._ending.wait(SAMPLE_S):
                return

    def _unsettled(self) -> bool:
        return any(
            leaked_memory_mib(self.before[uuid], self.after[uuid]) > TOLERANCE_MIB
            # One may be listed now that was not before.
            for uuid in self.after.keys() & self.before.keys()
        )

    def report(self) -> dict[str, Any]:
        """The GPU part of the evidence's `telemetry`."""
        telemetry: dict[str, Any] = dict(self.system)
        if self.uuids:
            telemetry["devices"] = [self._device(uuid) for uuid in self.uuids]
        return telemetry

    def _device(self, uuid: str) -> dict[str, Any]:
        before, after = self.before.get(uuid), self.after.get(uuid)
        return {
            **self.identities.get(uuid, {"uuid": uuid}),
            "before": summarized(before),
            "during": {**self.extremes.get(uuid, {}), "samples": self.samples},
            "after": summarized(after),
            "energy_used": difference(before, after, "energy"),
        }

    def problem(self) -> Problem | None:
        """The first problem of a GPU that invalidates the run, or None."""
        for uuid, before in self.before.items():
            finding = health(before, self.after.get(uuid))
            if finding:
                return Problem(finding[0], uuid, finding[1])
        return None


# --- pure functions over readings ---------------------------------------------------


def merge_sample(extremes: dict[str, Any], reading: Mapping[str, Any]) -> None:
    """Update maxima, clock ranges and throttle reasons with one sample."""
    for name in EXTREMES:
        value = reading[name]
        if is_error(value):
            extremes.setdefault(name, value)
        elif is_error(extremes.get(name)) or value > extremes.get(name, value - 1):
            extremes[name] = value
    for name, value in reading["clocks"].items():
        ranges = extremes.setdefault("clocks", {})
        if is_error(value):
            ranges.setdefault(name, value)
        else:
            known = ranges.get(name)
            low, high = (value, value) if known is None or is_error(known) else known
            ranges[name] = [min(low, value), max(high, value)]
    reasons = reading["throttle"]
    if is_error(reasons):
        extremes.setdefault("throttle", reasons)
    else:
        known = extremes.get("throttle", [])
        extremes["throttle"] = sorted({*([] if is_error(known) else known), *reasons})


def summarized(reading: Mapping[str, Any] | None) -> dict[str, Any]:
    """A reading for the evidence, with only the number of processes."""
    if reading is None:
        return {"error": "GpuIsLost"}
    listed = reading["processes"]
    return {**reading, "processes": listed if is_error(listed) else len(listed)}


def difference(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str
) -> Any:
    """The increase of a counter, or the error of either reading."""
    readings = [reading[name] for reading in (before, after) if reading]
    errors = [value for value in readings if is_error(value)]
    if errors or len(readings) < 2:
        return errors[0] if errors else {"error": "GpuIsLost"}
    return round(readings[1] - readings[0], 3)


def health(
    before: Mapping[str, Any], after: Mapping[str, Any] | None
) -> tuple[str, str] | None:
    """(error reason, details) of a GPU that the run left unhealthy, or None."""
    if after is None:
        return "device_lost", "its driver does not list the GPU any more"
    memory_used = after["memory_used"]
    if is_error(memory_used) and not is_error(before["memory_used"]):
        return "device_lost", f"its driver says {memory_used['error']}"
    facts = [
        *changes("ECC errors", before["ecc"], after["ecc"]),
        *changes("remapped rows", before["remapped_rows"], after["remapped_rows"]),
    ]
    leaked_mib = leaked_memory_mib(before, after)
    if leaked_mib > TOLERANCE_MIB:
        facts.append(f"{leaked_mib} MiB of its memory were not given back")
    return ("device_health", "; ".join(facts)) if facts else None


def changes(
    what: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterable[str]:
    """Descriptions of counters that changed; errors of either reading are skipped."""
    if is_error(before) or is_error(after):
        return
    for name, old in before.items():
        new = after[name]
        if not is_error(old) and not is_error(new) and old != new:
            yield f"{what} ({name.replace('_', ', ')}): {old} before, {new} after"


def leaked_memory_mib(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """MiB in use now that were free before, less the growth of other processes.

    Only processes listed before the run are others: a later one may be the run's own.
    """
    old, new = before["memory_used"], after["memory_used"]
    if is_error(old) or is_error(new):
        return 0
    return int(new - old - sum(growth(before["processes"], after["processes"])))


def growth(before: Any, after: Any) -> Iterable[int]:
    """MiB by which each process listed before has grown."""
    if is_error(before) or is_error(after):
        return
    used = {row["pid"]: row["memory"] or 0 for row in before}
    for row in after:
        if row["pid"] in used:
            yield max(0, (row["memory"] or 0) - used[row["pid"]])


def of_cpu(checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Peak memory (MiB) and processor time (s) of a run's checks together."""
    return {
        "peak_mib": max((check["peak_mib"] for check in checks), default=0),
        "cpu_s": round(sum(check["cpu_s"] for check in checks), 3),
    }
