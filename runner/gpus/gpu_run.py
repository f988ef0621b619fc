"""A run on GPUs: locks them, monitors them, and adds telemetry to the evidence.

`drive` wraps `harness.drive`. The worker, the commands and `python -m runner.sandbox`
all use it, so it needs no Django.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from portable import harness
from runner.gpus import devices, lock as gpu_lock, nvml, telemetry
from runner.gpus.lock import GpuLock
from runner.gpus.nvml import GpuError, Nvidia
from runner.gpus.telemetry import GpuMonitor, Problem

# Makes a Start for `harness.drive` from CUDA_VISIBLE_DEVICES (None: unchanged) and the
# lock descriptors that the run's processes must keep open.
StartWith = Callable[[str | None, Sequence[int]], harness.Start]
DRIVER_KEPT_S = 60
# Error reasons that invalidate the evidence of a run.
VOIDING_REASONS = ("device_health", "device_lost")


def ignore(text: str) -> None:
    """The default for `say`."""


@dataclass(frozen=True)
class HostGpus:
    """The GPUs of this host that one run may use.

    `chosen`: the UUIDs that the queue assigned; without them the run takes the first
    free GPUs that meet its requirements, none of `avoided()`. `locks`: folder of the
    lock files. `say` is told what the run waits for.
    """

    locks: Path
    nvidia: Nvidia = field(default_factory=nvml.Nvidia)
    chosen: tuple[str, ...] = ()
    avoided: Callable[[], Collection[str]] = tuple
    say: Callable[[str], None] = ignore
    on_problem: Callable[[Problem], None] | None = None


def drive(
    source: str,
    start_with: StartWith,
    gpus: HostGpus,
    *,
    on_cpu: bool = False,
    cancelled: Callable[[], bool] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run every check of a repro and return its evidence, telemetry included.

    `options` go to `harness.drive`. A GPU that is unhealthy afterwards makes the
    verdict error: device_health or device_lost. Raises ContractError and Cancelled.
    """
    header, _ = harness.read_repro(source)
    header = harness.on_device(header, options.get("device", ""))
    if on_cpu or header.device != "cuda":
        body = harness.drive(source, start_with("", ()), cancelled=cancelled, **options)
        return with_telemetry(body, driver_of(gpus.nvidia))
    with held(header, start_with, gpus, cancelled) as lease:
        body = harness.drive(source, lease.start, cancelled=cancelled, **options)
    problem = lease.problem or wrong_device(body, lease.uuids)
    if problem:
        invalidate(body, problem.reason)
    return with_telemetry(body, lease.monitor.report(), lease.uuids)


@dataclass(frozen=True)
class HeldGpus:
    """GPUs that are held and watched, and the Start that uses them."""

    start: harness.Start
    monitor: GpuMonitor
    uuids: tuple[str, ...]

    @property
    def problem(self) -> Problem | None:
        """What ails one of them since, as it is known once they are released."""
        return self.monitor.problem()


@contextmanager
def held(
    header: harness.Header,
    start_with: StartWith,
    gpus: HostGpus,
    cancelled: Callable[[], bool] | None,
) -> Iterator[HeldGpus]:
    """Lock and watch the GPUs of a repro for as long as the context lasts.

    Raises Cancelled.
    """
    try:
        lock = acquire(gpus, header, cancelled)
    except gpu_lock.Interrupted:
        raise harness.Cancelled from None
    uuids = tuple(u for u in lock.uuids if not u.startswith(gpu_lock.BY_INDEX))
    monitor = GpuMonitor(gpus.nvidia, uuids)
    try:
        with monitor:
            names = ",".join(map(gpu_lock.visible, lock.uuids))
            start = start_with(names or None, lock.descriptors)
            yield HeldGpus(start, monitor, uuids)
    finally:
        # Also after a cancelled run, and before the lock is released to the next one.
        problem = monitor.problem()
        if problem and gpus.on_problem:
            gpus.on_problem(problem)
        lock.release()


def acquire(
    gpus: HostGpus, header: harness.Header, cancelled: Callable[[], bool] | None
) -> GpuLock:
    """Lock the GPUs of a run; an empty lock on a host that has none.

    Raises gpu_lock.Interrupted.
    """
    uuid_sets = candidates(gpus, header)
    if not uuid_sets:
        return GpuLock((), [])
    return gpu_lock.wait_for(gpus.locks, uuid_sets, stopped=cancelled, waiting=gpus.say)


def candidates(gpus: HostGpus, header: harness.Header) -> list[tuple[str, ...]]:
    """Sets of UUIDs that the run may lock, in order of preference."""
    if gpus.chosen:
        return [gpus.chosen]
    try:
        inventory = devices.inventory(gpus.nvidia)
    except GpuError:
        # Torch may see what the library does not.
        count = header.min_devices * bool(nvml.device_nodes(""))
        names = [f"{gpu_lock.BY_INDEX}{index}" for index in range(count)]
        uuids = nvml.kernel_uuids()[: header.min_devices] or names
        return [tuple(uuids)] if uuids else []
    avoided = gpus.avoided()
    usable = [row for row in inventory if row["uuid"] not in avoided]
    suitable = [row for row in usable if fits(header, row)]
    # Where no GPU is suitable, the run takes one and the harness reports why it is not.
    uuids = [row["uuid"] for row in suitable or usable]
    count = min(header.min_devices, len(uuids))
    sets = [tuple(uuids[n : n + count]) for n in range(len(uuids) - count + 1)]
    return [choice for choice in sets if choice]


def fits(header: harness.Header, gpu: dict[str, Any]) -> bool:
    """Whether this GPU has the capability and memory that the header requires."""
    alone = replace(header, min_devices=1)
    unmet = harness.unmet_requirement(alone, {"devices": [gpu]})
    return unmet not in ("device", "capability", "memory")


def wrong_device(body: dict[str, Any], uuids: Sequence[str]) -> Problem | None:
    """The problem of a run whose torch used another GPU than it was assigned."""
    used = body["device"].get("uuid")
    is_mig = any(uuid.startswith("MIG-") for uuid in uuids)
    if not used or not uuids or used in uuids or is_mig:
        return None
    return Problem("device_lost", uuids[0], f"torch ran on {used}, not on {uuids[0]}")


def invalidate(body: dict[str, Any], reason: str) -> None:
    """Replace the verdict by an error: results of an unhealthy GPU prove nothing."""
    body.update(verdict="error", reason=reason, is_affected=None, hits=None, refuted={})
    body["workarounds"] = dict.fromkeys(body["workarounds"], "untested")


def with_telemetry(
    body: dict[str, Any], gpu_telemetry: dict[str, Any], leased: Sequence[str] = ()
) -> dict[str, Any]:
    """The evidence with its telemetry, under its new digest."""
    body["telemetry"] = {**gpu_telemetry, "cpu": telemetry.of_cpu(body["checks"])}
    device = body["device"]
    if leased and device["count"] and not device.get("uuid"):
        device["uuid"] = leased[0]
    body = dict(harness.encode(body))
    body["digest"] = harness.evidence_digest(body)
    return body


_drivers: WeakKeyDictionary[Nvidia, tuple[float, Any]] = WeakKeyDictionary()


def driver_of(nvidia: Nvidia) -> dict[str, Any]:
    """{"driver": version or error}, asked once a minute: a run may take 10 ms."""
    read_at, version = _drivers.get(nvidia, (-math.inf, None))
    if time.monotonic() - read_at > DRIVER_KEPT_S:
        try:
            with nvidia.session():
                version = nvidia.system()["driver"]
        except GpuError as error:
            version = {"error": error.name}
        _drivers[nvidia] = time.monotonic(), version
    return {"driver": version}
