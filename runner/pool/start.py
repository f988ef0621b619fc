"""Starts the checks of a run warm where the pool can, cold where it must.

Standard library only. A warm check is held by the same layers as a cold one: the same
policy, user, cgroup and folders; only its interpreter has torch imported already.
"""

from __future__ import annotations

import functools
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner import harness
from runner.pool import client
from runner.sandbox import coldstart, layout, policy, uids, view
from runner.sandbox.scratch import scratch_folder
from runner.sandbox.tiers import letter

# How a check looks that died because the pool did.
DIED_WITH_POOL = ("lost", "crash:SIGKILL")
GPUS = "it may use a GPU, which no parent touches"
ENVIRONMENT = "it sets variables that must be there before torch is imported"
CACHE = "what it compiles is not kept"
AGAIN = "The pool ended: this check starts again, cold."


class PoolGone(Exception):
    """The pool ended while it held the check."""


@dataclass
class WarmStart:
    """A `harness.Start`; `cold` is what it falls back to, and how checks are held.

    `keeps_cache`: what it compiles is kept for the next run, so a parent that compiles
    pays. `reasons`: why checks of this run started cold, in order.
    """

    socket_path: str
    cold: coldstart.ColdStart
    keeps_cache: bool = True
    reasons: list[str] = field(default_factory=list)

    def __call__(self, spec: harness.CheckSpec) -> harness.Report:
        try:
            self.require_warm(spec)
            return self.serve(spec)
        except client.NotWarm as error:
            self.reasons.append(str(error))
        except PoolGone:
            self.reasons.append(AGAIN)
            self.tell(spec, "harness", AGAIN)
        return self.cold(spec)

    def require_warm(self, spec: harness.CheckSpec) -> None:
        """Raise NotWarm for a check that no warm parent could serve."""
        if self.cold.gpus != "":
            raise client.NotWarm(GPUS)
        if spec.env:
            raise client.NotWarm(ENVIRONMENT)
        if "compiler" in self.needs and not self.keeps_cache:
            raise client.NotWarm(CACHE)
        lacking = self.needs & coldstart.NEED_NAMESPACES
        if lacking and letter(self.cold.layers) == "C":
            raise client.NotWarm("it needs what this tier does not give")

    def serve(self, spec: harness.CheckSpec) -> harness.Report:
        """One check by a child of the pool. Raises NotWarm, PoolGone."""
        with ExitStack() as stack:
            try:
                process = self.started(spec, stack)
            except (uids.NoUser, OSError) as error:
                raise client.NotWarm(str(error)) from error
            report = harness.watch(
                process,
                spec,
                served="warm",
                on_line=functools.partial(self.tell, spec),
                cancelled=self.cold.cancelled,
            )
        if process.pool_died and report.failure in DIED_WITH_POOL:
            raise PoolGone
        return report

    def started(self, spec: harness.CheckSpec, stack: ExitStack) -> client.WarmProcess:
        """A child of the pool with all that holds the check; it waits for its nonce."""
        cold, layers = self.cold, self.cold.layers
        cache = cold.compile_cache if "compiler" in self.needs else ""
        uid = stack.enter_context(coldstart.user_of(layers, cache))
        if cache:
            coldstart.prepare_cache(cache, uid)
        child = client.ask(self.socket_path, self.key(cache))
        stack.callback(child.close)
        inside = layers.namespaces is not None
        where = view.SCRATCH
        if not inside:
            where = coldstart.open_to(stack.enter_context(scratch_folder()), uid)
        seen_cache = view.INSIDE_CACHE if cache and inside else cache
        order = self.order(spec, where, uid, seen_cache)
        token = "" if inside else secrets.token_hex(16)
        if token:
            order["env"]["DOESITNAN_CHILD"] = token
        group = cold.group(spec)
        try:
            return client.WarmProcess(child, order, group, token)
        except OSError:
            if group:
                group.remove()
            raise

    def key(self, cache: str) -> dict[str, Any]:
        """Which parent: see `parents.Key`."""
        return {
            "python": self.cold.interpreter,
            "compiler": "compiler" in self.needs,
            "cache": cache,
            "namespaces": self.cold.layers.namespaces,
            "hidden": list(self.cold.hidden),
        }

    def order(
        self, spec: harness.CheckSpec, scratch: str, uid: int | None, cache: str
    ) -> dict[str, Any]:
        """What `jail.zygote` runs, and in which limits."""
        layers = self.cold.layers
        told = policy.check_policy(
            layers,
            scratch=scratch,
            entries=() if layers.namespaces else self.view,
            uid=uid,
            compile_cache=cache,
        )
        env = policy.environment(scratch, spec.preset, compile_cache=cache, gpus="")
        return {
            "name": Path(self.cold.repro).stem,
            "source": self.source,
            "check": spec.name,
            "trial": spec.trial,
            "cpu_s": harness.processor_limit_s(spec),
            "env": env,
            "policy": {**told, "view": []},
        }

    @functools.cached_property
    def source(self) -> str:
        return Path(self.cold.repro).read_bytes().decode()

    @functools.cached_property
    def needs(self) -> frozenset[str]:
        return coldstart.needs_of(self.source.encode())

    @functools.cached_property
    def view(self) -> list[view.Entry]:
        """What may be read where no namespace hides the rest."""
        return view.build_view(
            layout.layout_of(self.cold.interpreter),
            hidden=self.cold.hidden,
            users=policy.users(),
        )

    def tell(self, spec: harness.CheckSpec, stream: str, text: str) -> None:
        if self.cold.on_line:
            self.cold.on_line(spec.name, stream, text)
