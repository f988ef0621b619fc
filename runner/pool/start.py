"""Starts checks in the warm pool, or cold where the pool cannot serve them.

Standard library only. A warm check has the same sandbox as a cold one: policy, user,
cgroup and folders. Only its interpreter has torch imported already.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portable import harness
from runner.pool import client
from runner.sandbox import coldstart, layout, policy, uids, view

# Failures of a check that are due to the end of the pool.
DIED_WITH_POOL = ("lost", "crash:SIGKILL")
GPUS = "it may use a GPU, which no parent touches"
ENVIRONMENT = "it sets variables that must be there before torch is imported"
CACHE = "what it compiles is not kept"
AGAIN = "The pool ended: this check starts again, cold."


def parent_key(
    cold: coldstart.ColdStart, compiler: bool = False, cache: str = ""
) -> dict[str, Any]:
    """The parent that serves such checks: see `boxes.Key`."""
    caches = str(cold.compile_caches) if cache and shares_parent(cold) else ""
    return {
        "python": cold.interpreter,
        "compiler": compiler,
        "cache": "" if caches else cache,
        "caches": caches,
        "seed": cold.compile_seed if compiler else "",
        "namespaces": cold.layers.namespaces,
        "hidden": list(cold.hidden),
    }


def shares_parent(cold: coldstart.ColdStart) -> bool:
    """Whether repros that compile share a parent: where it can show each its cache."""
    return bool(cold.compile_caches and cold.layers.namespaces)


def shown_cache(cold: coldstart.ColdStart, cache: str) -> dict[str, str]:
    """How a child of a shared parent comes to its cache: `namespaces.show_one`."""
    if not cache or not shares_parent(cold):
        return {}
    name = Path(cache).relative_to(cold.compile_caches)
    return {
        "folder": f"{view.INSIDE_CACHES}/{name}",
        "at": view.INSIDE_CACHE,
        "among": view.INSIDE_CACHES,
    }


class PoolGone(Exception):
    """The pool ended during the check."""


@dataclass
class WarmStart:
    """A `harness.Start`. `cold`: the fallback, which also has the sandbox's settings.

    `keeps_cache`: whether the compile cache outlives the run; only then a parent that
    compiles pays off. `reasons`: why checks of this run started cold, in order.
    """

    socket_path: str
    cold: coldstart.ColdStart
    keeps_cache: bool = True
    reasons: list[str] = field(default_factory=list)

    def __call__(self, spec: harness.CheckSpec) -> harness.Report:
        try:
            self.require_warm(spec)
            return self.run_warm(spec)
        except client.NotWarm as error:
            self.reasons.append(str(error))
        except PoolGone:
            self.reasons.append(AGAIN)
            self.forward(spec, "harness", AGAIN)
        except client.Stopped:
            # As the harness itself says it of a check that was cancelled.
            return harness.Report(failure="lost")
        return self.cold(spec)

    def require_warm(self, spec: harness.CheckSpec) -> None:
        """Raise NotWarm for a check that no warm parent can serve."""
        if self.cold.gpus != "":
            raise client.NotWarm(GPUS)
        if spec.env:
            raise client.NotWarm(ENVIRONMENT)
        if "compiler" in self.needs and not self.keeps_cache:
            raise client.NotWarm(CACHE)
        if why := self.cold.refusal(self.needs):
            raise client.NotWarm(why)

    def run_warm(self, spec: harness.CheckSpec) -> harness.Report:
        """One check by a child of the pool. Raises NotWarm, PoolGone, Stopped."""
        with ExitStack() as stack:
            try:
                process = self.started(spec, stack)
            except (uids.NoUser, OSError) as error:
                raise client.NotWarm(str(error)) from error
            report = harness.watch(
                process,
                spec,
                served="warm",
                on_line=functools.partial(self.forward, spec),
                cancelled=self.cold.cancelled,
            )
        if process.pool_died and report.failure in DIED_WITH_POOL:
            raise PoolGone
        return report

    def started(self, spec: harness.CheckSpec, stack: ExitStack) -> client.WarmProcess:
        """A child of the pool with user, folders and cgroup; it waits for its nonce."""
        cold = self.cold
        cache = cold.compile_cache if "compiler" in self.needs else ""
        space = stack.enter_context(coldstart.workspace(cold.layers, cache))
        key = parent_key(cold, "compiler" in self.needs, cache)
        child = client.request_child(self.socket_path, key, cold.cancelled)
        stack.callback(child.close)
        order = self.order(spec, space)
        group = cold.group(spec)
        try:
            sealed = policy.seals(cold.layers)
            return client.WarmProcess(child, order, group, space.token, sealed=sealed)
        except OSError:
            if group:
                group.remove()
            raise

    def order(
        self, spec: harness.CheckSpec, space: coldstart.Workspace
    ) -> dict[str, Any]:
        """The order for `jail.zygote`: source, check, environment and policy."""
        layers = self.cold.layers
        check_policy = policy.check_policy(
            layers,
            scratch=space.scratch,
            entries=() if layers.namespaces else self.view,
            uid=space.uid,
            compile_cache=space.cache,
        )
        env = policy.environment(
            space.scratch, spec.preset, compile_cache=space.cache, gpus=""
        )
        return {
            "name": Path(self.cold.repro).stem,
            "source": self.source,
            "check": harness.order_of(spec),
            "env": {**env, **space.marks},
            "cache": shown_cache(self.cold, space.cache_source),
            "policy": {**check_policy, "view": []},
        }

    @functools.cached_property
    def source(self) -> str:
        return Path(self.cold.repro).read_bytes().decode()

    @functools.cached_property
    def needs(self) -> frozenset[str]:
        return coldstart.needs_of(self.source.encode())

    @functools.cached_property
    def view(self) -> list[view.Entry]:
        """The files that may be read where no namespace hides the rest."""
        return view.build_view(
            layout.layout_of(self.cold.interpreter),
            hidden=self.cold.hidden,
            users=policy.users(),
        )

    def forward(self, spec: harness.CheckSpec, stream: str, text: str) -> None:
        if self.cold.on_line:
            self.cold.on_line(spec.name, stream, text)
