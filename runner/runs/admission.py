"""Admission control: whether any worker could execute a run, and if not, why."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from functools import cached_property

from django.utils import timezone

from kb.choices import DeviceClass
from kb.models import Record, Repro
from kb.versions.order import build_order
from runner.builds import pins
from runner.models import Build, Device, Installation, Worker
from runner.runs import fleet, refusals
from runner.runs.fleet import WORKER_STALE, ago
from runner.runs.refusals import RunRefused

# A run may be queued for a worker that was seen this recently: it may be restarting.
RESTART = timedelta(minutes=10)
MIB_PER_GIB = 1024


class FleetSnapshot:
    """Workers, GPUs and installations, each read once for any number of builds."""

    @cached_property
    def workers(self) -> list[Worker]:
        return list(Worker.objects.annotate(is_online=fleet.is_online()))

    @cached_property
    def online(self) -> list[Worker]:
        return [row for row in self.workers if row.is_online]  # type: ignore[attr-defined]

    @cached_property
    def gpus(self) -> dict[str, list[Device]]:
        """GPUs with a recent heartbeat, in any state, by host."""
        by_host = defaultdict(list)
        for row in Device.objects.filter(last_seen__gte=ago(WORKER_STALE)):
            by_host[row.host].append(row)
        return dict(by_host)

    @cached_property
    def installations(self) -> dict[str, list[Installation]]:
        by_build = defaultdict(list)
        for row in Installation.objects.filter(build__isnull=False):
            by_build[str(row.build_id)].append(row)
        return dict(by_build)

    def refusal(self, repro: Repro, build: Build, device: str) -> RunRefused | None:
        """Why no worker can run this; None where one can, now or after a restart."""
        if device == DeviceClass.CUDA and repro.device == DeviceClass.CPU:
            return refusals.CPU_ONLY.refusal("device")
        refused = self.unserved(build, device)
        if not refused and device == DeviceClass.CUDA and self.serving(build, device):
            active = [row for row in self.serving(build, device) if not row.paused]
            return self.gpu_refusal(repro, build, active)
        return refused

    def serving(self, build: Build, device: str) -> list[Worker]:
        queue = f"{build.slug}.{device}"
        return [row for row in self.online if queue in row.queues]

    def unserved(self, build: Build, device: str) -> RunRefused | None:
        """Why no worker takes anything of this build and class of device."""
        workers = self.serving(build, device)
        if not workers:
            return self.absence(build, f"{build.slug}.{device}", device)
        if all(row.paused for row in workers):
            return refusals.PAUSED.refusal("paused", raw=build.raw)
        return None

    def absence(self, build: Build, queue: str, device: str) -> RunRefused | None:
        """Why no online worker serves the queue; None where one is expected to."""
        rows = self.installations.get(build.slug, [])
        if any(row.state == Installation.State.INSTALLING for row in rows):
            return None if device == DeviceClass.CPU else no_device(build)
        ready = [row for row in rows if row.state == Installation.State.READY]
        hosts = {row.host for row in ready}
        heartbeats = [row.last_seen for row in self.workers if row.host in hosts]
        was_served = any(queue in row.queues for row in self.workers)
        if device == DeviceClass.CUDA and not was_served:
            return no_device(build)
        if ready and (not heartbeats or timezone.now() - max(heartbeats) <= RESTART):
            return None
        if ready:
            since = refusals.duration(timezone.now() - max(heartbeats))
            return refusals.OFFLINE.refusal("offline", raw=build.raw, ago=since)
        broken = [row for row in rows if row.state == Installation.State.BROKEN]
        if broken:
            error_lines = broken[0].error.strip().splitlines() or [broken[0].state]
            reason = error_lines[-1][:200]
            return refusals.BROKEN.refusal("broken", raw=build.raw, reason=reason)
        return refusals.NO_INSTALLATION.refusal("no_installation", raw=build.raw)

    def gpu_refusal(
        self, repro: Repro, build: Build, workers: list[Worker]
    ) -> RunRefused | None:
        """Why no host of these workers has the GPUs that the repro requires."""
        hosts = {row.host for row in workers}
        visible = [gpu for host in hosts for gpu in self.gpus.get(host, [])]
        visible += [gpu for row in workers for gpu in fleet.unnamed_gpus(row)]
        ready = [gpu for gpu in visible if gpu.state == Device.State.READY]
        if not visible:
            return no_device(build)
        if not ready:
            reason = visible[0].reason or visible[0].get_state_display()
            return refusals.WITHDRAWN.refusal("paused", raw=build.raw, reason=reason)
        needs = fleet.requirements(repro.header)
        capable = [
            gpu
            for gpu in ready
            if fleet.capability_number(gpu.capability) >= needs["min_capability"]
        ]
        if not capable:
            have = ", ".join(sorted({gpu.capability for gpu in ready}))
            return refusals.CAPABILITY.refusal(
                "capability", needed=repro.header["min_capability"], have=have
            )
        large = [gpu for gpu in capable if gpu.memory_mib >= needs["min_memory_mib"]]
        if not large:
            have = f"{max(gpu.memory_mib for gpu in capable) / MIB_PER_GIB:.0f}"
            needed = f"{needs['min_memory_mib'] / MIB_PER_GIB:.0f}"
            return refusals.MEMORY.refusal("memory", needed=needed, have=have)
        most = max(sum(gpu.host == host for gpu in large) for host in hosts)
        if most < needs["min_devices"]:
            return refusals.DEVICES.refusal(
                "devices", needed=needs["min_devices"], have=most
            )
        return None


def no_device(build: Build) -> RunRefused:
    return refusals.NO_DEVICE.refusal("no_device", raw=build.raw)


def installed_builds() -> list[Build]:
    """Builds with a working installation somewhere, newest version first."""
    rows = Build.objects.runnable()
    return sorted(rows, key=lambda row: build_order(row.raw, row.slug), reverse=True)


def by_preference() -> list[Build]:
    """Installed builds: first what a new site installs, then newest version first."""
    pinned = pins.default_build().slug
    return sorted(installed_builds(), key=lambda build: build.slug != pinned)


def default_repro(record: Record, device: str) -> str:
    """The repro of a run that names none: for this device, then without a package that
    has to be installed first, then the bug itself before a model of it.
    """

    def order(repro: Repro) -> tuple[bool, bool, bool, bool, str]:
        needs_package = bool(repro.header.get("stack"))
        is_named = repro.name == "repro"
        return (
            *(repro.device != device, needs_package, repro.is_model),
            *(not is_named, repro.name),
        )

    ordered = sorted(record.repros.all(), key=order)
    return ordered[0].name if ordered else "repro"


def default_build(repro: Repro, device: str) -> Build | None:
    """Where a run goes that names no build.

    The first `by_preference` that could run it; where none could, the first of all,
    whose refusal says why.
    """
    builds = by_preference()
    fleet_now = FleetSnapshot()
    able = (row for row in builds if not fleet_now.refusal(repro, row, device))
    return next(able, builds[0] if builds else None)
