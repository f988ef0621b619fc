"""What NVML saw of a GPU before, during and after a run, and whether it stayed well.

Fields and units as in runner.gpus.devices; each is a value or {"error": name}. Standard
library and pynvml. The samples are taken by a thread of the runner: the processes of
the run have no part in what is said of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runner.gpus import devices
from runner.gpus.devices import Gpu, is_error
from runner.gpus.nvml import Nvml, NvmlError
from runner.gpus.series import Series

SAMPLE_S = 0.2
# A driver frees the memory of a dead process within moments, not at once.
SETTLE_S = 10.0
SETTLE_POLL_S = 0.1
# The driver itself keeps some for a first context; one left behind is far larger.
TOLERANCE_MIB = 128
EXTREMES = ("memory_used", "power", "temperature")


class Problem(NamedTuple):
    """Why a run on this GPU is no evidence: the contract's reason, and the facts."""

    reason: str
    uuid: str
    text: str


class Watch:
    """Looks at some GPUs for as long as a run has them.

    `with Watch(nvml, uuids) as watch: ...`, then `watch.report()` and
    `watch.problem()`. Nothing here raises for what NVML cannot say.
    """

    def __init__(self, nvml: Nvml, uuids: Sequence[str]) -> None:
        self.nvml = nvml
        self.uuids = tuple(uuids)
        self.system: dict[str, Any] = {}
        self.known: dict[str, dict[str, Any]] = {}
        self.before: dict[str, dict[str, Any]] = {}
        self.after: dict[str, dict[str, Any]] = {}
        self.extremes: dict[str, dict[str, Any]] = {}
        self.samples = 0
        self.series = Series()
        self._ending = threading.Event()
        self._sampler: threading.Thread | None = None

    def __enter__(self) -> Watch:
        self.system = self._system()
        self.known = self._read(devices.identity)
        self.before = self._read(devices.state)
        for uuid, seen in self.before.items():
            widen(self.extremes.setdefault(uuid, {}), seen)
        if self.before:
            self._sampler = threading.Thread(target=self._sample, daemon=True)
            self._sampler.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ending.set()
        if self._sampler:
            self._sampler.join()
        self.after = self._read(devices.state) if self.before else {}
        deadline = time.monotonic() + SETTLE_S
        while self._unsettled() and time.monotonic() < deadline:
            time.sleep(SETTLE_POLL_S)
            self.after = self._read(devices.state)

    def _system(self) -> dict[str, Any]:
        try:
            with devices.session(self.nvml):
                return devices.system(self.nvml)
        except NvmlError as error:
            return devices.unanswered(error)

    def _read(self, what: Any) -> dict[str, dict[str, Any]]:
        """{uuid: fields}; a GPU that is not there any more has no entry."""
        if not self.uuids:
            return {}
        try:
            with devices.session(self.nvml):
                return {gpu.uuid: what(self.nvml, gpu) for gpu in self._mine(self.nvml)}
        except NvmlError:
            return {}

    def _mine(self, nvml: Nvml) -> Iterable[Gpu]:
        return (gpu for gpu in devices.gpus(nvml) if gpu.uuid in self.uuids)

    def _sample(self) -> None:
        began = time.monotonic()
        while True:
            for uuid, seen in self._read(devices.load).items():
                widen(self.extremes.setdefault(uuid, {}), seen)
                self.series.take(uuid, time.monotonic() - began, seen)
            self.samples += 1
            if self._ending.wait(SAMPLE_S):
                return

    def _unsettled(self) -> bool:
        return any(
            leftover(self.before[uuid], self.after[uuid]) > TOLERANCE_MIB
            for uuid in self.after
        )

    def report(self) -> dict[str, Any]:
        """`telemetry` of the evidence, as far as the GPUs go."""
        found: dict[str, Any] = dict(self.system)
        if self.uuids:
            found["devices"] = [self._device(uuid) for uuid in self.uuids]
        return found

    def _device(self, uuid: str) -> dict[str, Any]:
        before, after = self.before.get(uuid), self.after.get(uuid)
        return {
            **self.known.get(uuid, {"uuid": uuid}),
            "before": shown(before),
            "during": {**self.extremes.get(uuid, {}), "samples": self.samples},
            "after": shown(after),
            "energy_used": difference(before, after, "energy"),
            "series": self.series.of(uuid),
        }

    def problem(self) -> Problem | None:
        """What makes the run worthless, for the first GPU that has something."""
        for uuid, before in self.before.items():
            found = health(before, self.after.get(uuid))
            if found:
                return Problem(found[0], uuid, found[1])
        return None


# --- pure functions over readings ---------------------------------------------------


def widen(extremes: dict[str, Any], seen: Mapping[str, Any]) -> None:
    """Take one sample into the highest values, the clocks' range and the reasons."""
    for name in EXTREMES:
        value = seen[name]
        if is_error(value):
            extremes.setdefault(name, value)
        elif is_error(extremes.get(name)) or value > extremes.get(name, value - 1):
            extremes[name] = value
    for name, value in seen["clocks"].items():
        ranges = extremes.setdefault("clocks", {})
        if is_error(value):
            ranges.setdefault(name, value)
        else:
            known = ranges.get(name)
            low, high = (value, value) if known is None or is_error(known) else known
            ranges[name] = [min(low, value), max(high, value)]
    reasons = seen["throttle"]
    if is_error(reasons):
        extremes.setdefault("throttle", reasons)
    else:
        known = extremes.get("throttle", [])
        extremes["throttle"] = sorted({*([] if is_error(known) else known), *reasons})


def shown(reading: Mapping[str, Any] | None) -> dict[str, Any]:
    """A reading for the evidence: of the processes, which are others', the number."""
    if reading is None:
        return {"error": "GpuIsLost"}
    listed = reading["processes"]
    return {
        **reading,
        "processes": listed if is_error(listed) else len(listed),
    }


def difference(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str
) -> Any:
    """How much a counter grew, or the error of either reading."""
    readings = [reading[name] for reading in (before, after) if reading]
    errors = [value for value in readings if is_error(value)]
    if errors or len(readings) < 2:
        return errors[0] if errors else {"error": "GpuIsLost"}
    return round(readings[1] - readings[0], 3)


def health(
    before: Mapping[str, Any], after: Mapping[str, Any] | None
) -> tuple[str, str] | None:
    """The reason and the facts where a GPU did not come out as it went in."""
    if after is None:
        return "device_lost", "NVML does not list the GPU any more"
    gone = after["memory_used"]
    if is_error(gone) and not is_error(before["memory_used"]):
        return "device_lost", f"NVML says {gone['error']}"
    facts = [
        *changes("ECC errors", before["ecc"], after["ecc"]),
        *changes("remapped rows", before["remapped_rows"], after["remapped_rows"]),
    ]
    kept = leftover(before, after)
    if kept > TOLERANCE_MIB:
        facts.append(f"{kept} MiB of its memory were not given back")
    return ("device_health", "; ".join(facts)) if facts else None


def changes(
    what: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterable[str]:
    """Counters that moved; one that either reading lacks cannot have."""
    if is_error(before) or is_error(after):
        return
    for name, old in before.items():
        new = after[name]
        if not is_error(old) and not is_error(new) and old != new:
            yield f"{what} ({name.replace('_', ', ')}): {old} before, {new} after"


def leftover(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """MiB in use that were free before, without what other processes took meanwhile.

    Others are those NVML listed before the run: one that came during it may be the
    run's own.
    """
    old, new = before["memory_used"], after["memory_used"]
    if is_error(old) or is_error(new):
        return 0
    return int(new - old - sum(growth(before["processes"], after["processes"])))


def growth(before: Any, after: Any) -> Iterable[int]:
    """How much more each process that was there before uses now."""
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
