"""Whether any worker could execute a repro on a build, and if not, why."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from functools import cached_property

from django.utils import timezone

from kb.choices import DeviceClass
from kb.models import Repro
from runner.models import Build, Device, Installation, Worker
from runner.runs import fleet, refusals
from runner.runs.fleet import WORKER_STALE, ago
from runner.runs.refusals import RunRefused

# So long a run may wait for a worker that went away, say for its restart.
RESTART = timedelta(minutes=10)
MIB_PER_GIB = 1024


class Fleet:
    """Workers, GPUs and installations, each read once to judge many builds."""

    @cached_property
    def workers(self) -> list[Worker]:
        return list(Worker.objects.annotate(is_online=fleet.is_online()))

    @cached_property
    def online(self) -> list[Worker]:
        return [row for row in self.workers if row.is_online]  # type: ignore[attr-defined]

    @cached_property
    def gpus(self) -> dict[str, list[Device]]:
        """GPUs that are seen now, in any state, by host."""
        found = defaultdict(list)
        for row in Device.objects.filter(last_seen__gte=ago(WORKER_STALE)):
            found[row.host].append(row)
        return dict(found)

    @cached_property
    def installations(self) -> dict[str, list[Installation]]:
        found = defaultdict(list)
        for row in Installation.objects.filter(build__isnull=False):
            found[str(row.build_id)].append(row)
        return dict(found)

    def refusal(self, repro: Repro, build: Build, device: str) -> RunRefused | None:
        """Why no worker could run this; None where one can, now or in a moment."""
        if device == DeviceClass.CUDA and repro.device == DeviceClass.CPU:
            return refusals.CPU_ONLY.refusal("device")
        queue = f"{build.slug}.{device}"
        serving = [row for row in self.online if queue in row.queues]
        if not serving:
            return self.absence(build, queue, device)
        if all(row.paused for row in serving):
            return refusals.PAUSED.refusal("paused", raw=build.raw)
        if device == DeviceClass.CUDA:
            active = [row for row in serving if not row.paused]
            return self.gpu_refusal(repro, build, active)
        return None

    def absence(self, build: Build, queue: str, device: str) -> RunRefused | None:
        """Why nobody serves the queue; None where somebody is about to."""
        rows = self.installations.get(build.slug, [])
        ready = [row for row in rows if row.state == Installation.State.READY]
        hosts = {row.host for row in ready}
        seen = [row.last_seen for row in self.workers if row.host in hosts]
        known = any(queue in row.queues for row in self.workers)
        if device == DeviceClass.CUDA and not known:
            return refusals.NO_DEVICE.refusal("no_device", raw=build.raw)
        if ready and (not seen or timezone.now() - max(seen) <= RESTART):
            return None
        if ready:
            en, zh = refusals.duration(timezone.now() - max(seen))
            return refusals.OFFLINE.refusal(
                "offline", raw=build.raw, ago=en, ago_zh=f" {zh}"
            )
        broken = [row for row in rows if row.state == Installation.State.BROKEN]
        if broken:
            said = broken[0].error.strip().splitlines() or [broken[0].state]
            reason = said[-1][:200]
            return refusals.BROKEN.refusal("broken", raw=build.raw, reason=reason)
        return refusals.NO_INSTALLATION.refusal("no_installation", raw=build.raw)

    def gpu_refusal(
        self, repro: Repro, build: Build, workers: list[Worker]
    ) -> RunRefused | None:
        """Why no machine of these workers has the GPUs that the repro asks for."""
        hosts = {row.host for row in workers}
        seen = [gpu for host in hosts for gpu in self.gpus.get(host, [])]
        seen += [gpu for row in workers for gpu in fleet.unnamed_gpus(row)]
        ready = [gpu for gpu in seen if gpu.state == Device.State.READY]
        if not seen:
            return refusals.NO_DEVICE.refusal("no_device", raw=build.raw)
        if not ready:
            reason = seen[0].reason or seen[0].get_state_display()
            return refusals.WITHDRAWN.refusal("paused", raw=build.raw, reason=reason)
        asked = fleet.requirements(repro.header)
        able = [gpu for gpu in ready if has_capability(gpu, asked["min_capability"])]
        if not able:
            have = ", ".join(sorted({gpu.capability for gpu in ready}))
            return refusals.CAPABILITY.refusal(
                "capability", needed=repro.header["min_capability"], have=have
            )
        large = [gpu for gpu in able if gpu.memory_mib >= asked["min_memory_mib"]]
        if not large:
            have = f"{max(gpu.memory_mib for gpu in able) / MIB_PER_GIB:.0f}"
            needed = f"{asked['min_memory_mib'] / MIB_PER_GIB:.0f}"
            return refusals.MEMORY.refusal("memory", needed=needed, have=have)
        most = max(sum(gpu.host == host for gpu in large) for host in hosts)
        if most < asked["min_devices"]:
            return refusals.DEVICES.refusal(
                "devices", needed=asked["min_devices"], have=most
            )
        return None


def has_capability(gpu: Device, lowest: int) -> bool:
    return fleet.capability_number(gpu.capability) >= lowest
