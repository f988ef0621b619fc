"""One run with the GPUs it holds: locked, measured, and told of in its evidence.

`drive` is `harness.drive` with that around it. It serves the site's worker, the
commands and `python -m runner.sandbox` alike: standard library and pynvml.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from runner import harness
from runner.gpus import devices, lock as gpu_lock, telemetry
from runner.gpus.lock import GpuLock
from runner.gpus.nvml import Live, Nvml, NvmlError
from runner.gpus.telemetry import Problem, Watch

# Start for `harness.drive`, given CUDA_VISIBLE_DEVICES (None: as it is) and the
# descriptors that the run's processes have to keep open.
StartWith = Callable[[str | None, Sequence[int]], harness.Start]
DRIVER_KEPT_S = 60
# Reasons by which a GPU takes the verdict of everything that ran on it.
VOID = ("device_health", "device_lost")


def ignore(text: str) -> None:
    """Nobody wants to hear of it."""


@dataclass(frozen=True)
class Rig:
    """The GPUs of this host, as one run meets them.

    `chosen`: the UUIDs that whoever queued the run gave it, else it takes the first
    that is free and fits, none of `avoided()`.
    """

    locks: Path
    nvml: Nvml = Live()  # noqa: RUF009  # stateless
    chosen: tuple[str, ...] = ()
    avoided: Callable[[], Collection[str]] = tuple
    say: Callable[[str], None] = ignore
    on_problem: Callable[[Problem], None] | None = None


def drive(
    source: str,
    start_with: StartWith,
    rig: Rig,
    *,
    on_cpu: bool = False,
    cancelled: Callable[[], bool] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run every check of a repro and return its evidence, telemetry included.

    `options` go to `harness.drive`. A GPU that was not well afterwards makes the
    verdict error: device_health or device_lost. Raises ContractError and Cancelled.
    """
    header, _ = harness.read_repro(source)
    if on_cpu or header.device == "cpu":
        body = harness.drive(source, start_with("", ()), cancelled=cancelled, **options)
        return with_telemetry(body, driver_of(rig.nvml))
    try:
        lock = take(rig, header, cancelled)
    except gpu_lock.Interrupted:
        raise harness.Cancelled from None
    known = tuple(u for u in lock.uuids if not u.startswith(gpu_lock.BY_INDEX))
    watch = Watch(rig.nvml, known)
    try:
        with watch:
            names = ",".join(map(gpu_lock.visible, lock.uuids))
            start = start_with(names or None, lock.descriptors)
            body = harness.drive(source, start, cancelled=cancelled, **options)
    finally:
        # Also after a run that was cancelled, and before anybody gets the GPU.
        problem = watch.problem()
        if problem and rig.on_problem:
            rig.on_problem(problem)
        lock.release()
    problem = problem or strayed(body, known)
    if problem:
        void(body, problem.reason)
    return with_telemetry(body, watch.report(), known)


def take(
    rig: Rig, header: harness.Header, cancelled: Callable[[], bool] | None
) -> GpuLock:
    """Lock the GPUs of a run; an empty lock on a host that has none.

    Raises gpu_lock.Interrupted.
    """
    wanted = choices(rig, header)
    if not wanted:
        return GpuLock((), [])
    return gpu_lock.wait_for(rig.locks, wanted, stopped=cancelled, waiting=rig.say)


def choices(rig: Rig, header: harness.Header) -> list[tuple[str, ...]]:
    """Sets of GPUs that would do, the most fitting first."""
    if rig.chosen:
        return [rig.chosen]
    try:
        found = devices.inventory(rig.nvml)
    except NvmlError:
        # Torch may see what NVML does not.
        count = header.min_devices * devices.has_nodes()
        names = [f"{gpu_lock.BY_INDEX}{index}" for index in range(count)]
        uuids = devices.proc_uuids()[: header.min_devices] or names
        return [tuple(uuids)] if uuids else []
    avoided = rig.avoided()
    usable = [row for row in found if row["uuid"] not in avoided]
    able = [row for row in usable if fits(header, row)]
    # Where none is able, the harness is to say so: of what there is.
    uuids = [row["uuid"] for row in able or usable]
    count = min(header.min_devices, len(uuids))
    sets = [tuple(uuids[n : n + count]) for n in range(len(uuids) - count + 1)]
    return [choice for choice in sets if choice]


def fits(header: harness.Header, gpu: dict[str, Any]) -> bool:
    """Whether this one GPU has the capability and the memory that are asked for."""
    alone = replace(header, min_devices=1)
    unmet = harness.unmet_requirement(alone, {"devices": [gpu]})
    return unmet not in ("device", "capability", "memory")


def strayed(body: dict[str, Any], held: Sequence[str]) -> Problem | None:
    """A run whose torch used another GPU than the one it was given."""
    used = body["device"].get("uuid")
    if not used or not held or used in held or any(u.startswith("MIG-") for u in held):
        return None
    return Problem("device_lost", held[0], f"torch ran on {used}, not on {held[0]}")


def void(body: dict[str, Any], reason: str) -> None:
    """Take the verdict away: what ran on a sick GPU shows nothing."""
    body.update(verdict="error", reason=reason, is_affected=None, hits=None, refuted={})
    body["workarounds"] = dict.fromkeys(body["workarounds"], "untested")


def with_telemetry(
    body: dict[str, Any], seen: dict[str, Any], held: Sequence[str] = ()
) -> dict[str, Any]:
    """The evidence with what was measured, under its new digest."""
    body["telemetry"] = {**seen, "cpu": telemetry.of_cpu(body["checks"])}
    device = body["device"]
    if held and device["count"] and not device.get("uuid"):
        device["uuid"] = held[0]
    body = dict(harness.encode(body))
    body["digest"] = harness.evidence_digest(body)
    return body


_drivers: WeakKeyDictionary[Nvml, tuple[float, Any]] = WeakKeyDictionary()


def driver_of(nvml: Nvml) -> dict[str, Any]:
    """{"driver": version or error}, asked once a minute: a run may take 10 ms."""
    asked_at, version = _drivers.get(nvml, (-math.inf, None))
    if time.monotonic() - asked_at > DRIVER_KEPT_S:
        try:
            with devices.session(nvml):
                version = devices.system(nvml)["driver"]
        except NvmlError as error:
            version = {"error": error.name}
        _drivers[nvml] = time.monotonic(), version
    return {"driver": version}
