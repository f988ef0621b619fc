"""The stock of warm parents: which there are, and when one starts and when it ends.

A parent starts for the first check that wants it, or earlier. It is replaced when it is
worn or its files change; it ends when its Python is gone, nobody uses it, or its memory
is needed.
"""

from __future__ import annotations

import collections
import contextlib
import selectors
import time
from collections.abc import Callable
from typing import Any

from runner.pool.boxes import Key
from runner.pool.client import NotWarm
from runner.pool.memory import free_memory_mib
from runner.pool.parents import Parent, Spare, modified
from runner.sandbox.box import NotStarted

MEASURE_S = 10.0
# After so long without a check a parent ends, but not that of the build warmed last.
IDLE_S = 900.0
# A build whose parent failed is tried again after this long.
UNFIT_S = 600.0
# Free memory without which no parent is started before it is needed: a torch of the
# CPU takes some 300 MiB.
WARM_MIB = 512


class Stock:
    """`deliver` and `refuse` answer a client for whom a parent has a child, or none."""

    def __init__(
        self,
        memory_mib: int,
        selector: selectors.BaseSelector,
        deliver: Callable[[Any, Spare], bool],
        refuse: Callable[[Any, str], None],
    ) -> None:
        self.memory_mib = memory_mib
        self.selector, self.deliver, self.refuse = selector, deliver, refuse
        self.parents: dict[Key, Parent] = {}
        self.retired: list[Parent] = []
        # They start while a worn parent still serves.
        self.successors: dict[Key, Parent] = {}
        self.unfit: dict[Key, tuple[str, float]] = {}
        self.kills: collections.Counter[Key] = collections.Counter()
        # Why the last parent for a key is none; gone once one is ready.
        self.lacking: dict[Key, str] = {}
        # The default build's, which a worker names: its next click is to be warm.
        self.kept: Key | None = None
        self.measured_at = time.monotonic()

    def keep(self, key: Key) -> bool:
        """Keep the parent for `key` also while nobody uses it; whether there is one."""
        self.kept = key
        self.start_early(key)
        return key in self.parents

    def start_early(self, key: Key) -> None:
        """Start the parent for `key` before anybody needs it, where memory allows."""
        if min(free_memory_mib(), self.memory_mib) >= WARM_MIB:
            with contextlib.suppress(NotWarm):
                self.parent_for(key)

    def parent_for(self, key: Key) -> Parent:
        """The parent for `key`, which is started if needed. Raises NotWarm."""
        parent = self.parents.get(key)
        if parent and parent.state == "ended":  # in this very round
            self.note_end(key, parent)
        elif parent and parent.stale_reason():
            self.retire(key)
        if parent := self.parents.get(key):
            if parent.worn:
                self.succeed(key)
            return parent
        reason, until = self.unfit.get(key, ("", 0.0))
        if time.monotonic() < until:
            raise NotWarm(reason)
        try:
            parent = Parent(key, self.selector, self.deliver, self.refuse)
        except NotStarted as error:
            self.lacking[key] = str(error)
            raise NotWarm(str(error)) from error
        self.parents[key] = parent
        return parent

    def succeed(self, key: Key) -> None:
        """Start the parent that is to replace a worn one, once, where memory allows."""
        if key not in self.successors and free_memory_mib() >= WARM_MIB:
            with contextlib.suppress(NotStarted):
                successor = Parent(key, self.selector, self.deliver, self.refuse)
                self.successors[key] = successor

    def tend(self) -> None:
        """To be called once a second or more often."""
        for parent in self.all_parents():
            if parent.overdue():
                parent.end("the imports took too long")
        self.take_note()
        self.let_go()
        for parent in list(self.retired):
            if parent.idle or parent.state == "ended":
                self.retired.remove(parent)
                parent.end("it was replaced")
        if time.monotonic() - self.measured_at > MEASURE_S:
            self.keep_within_budget()

    def take_note(self) -> None:
        """Which parents are ready, and which have ended."""
        for key, parent in list(self.parents.items()):
            if parent.state == "ready":
                self.lacking.pop(key, None)
            if parent.state == "ended":
                self.note_end(key, parent)
                if parent.killed:
                    self.start_early(key)
        for key, parent in list(self.successors.items()):
            if parent.state == "ready":
                del self.successors[key]
                if key in self.parents:
                    self.retire(key)
                self.parents[key] = parent

    def let_go(self) -> None:
        """Part with parents whose Python is gone, and with those long out of use."""
        unused = time.monotonic() - IDLE_S
        for key, parent in list(self.parents.items()):
            if modified(key.python) is None:
                self.lacking.pop(key, None)
                self.retire(key)
            elif parent.idle and parent.used_at < unused and key != self.kept:
                self.retire(key)

    def note_end(self, key: Key, parent: Parent) -> None:
        """A parent that never served is not started again for UNFIT_S.

        One that was killed says nothing of its build: it starts again at once, after a
        pause only where it is killed time after time before it has served anybody.
        """
        del self.parents[key]
        self.lacking[key] = parent.reason
        if parent.served:
            self.kills.pop(key, None)
            return
        pause_s = UNFIT_S
        if parent.killed:
            pause_s = min(2.0 ** self.kills[key] - 1, UNFIT_S)
            self.kills[key] += 1
        self.unfit[key] = parent.reason, time.monotonic() + pause_s

    def retire(self, key: Key) -> None:
        """Fork no more children of this parent; it ends after those in use."""
        parent = self.parents.pop(key)
        parent.retired = True
        self.retired.append(parent)
        if successor := self.successors.pop(key, None):
            successor.end("it was replaced")

    def keep_within_budget(self) -> None:
        """End the least recently used idle parents, but never the last one."""
        self.measured_at = time.monotonic()
        used = sum(parent.measure() for parent in self.parents.values())
        by_use = sorted(self.parents.items(), key=lambda item: item[1].used_at)
        for key, parent in by_use[:-1]:
            if used > self.memory_mib and parent.idle and parent.state == "ready":
                used -= parent.pss_mib
                del self.parents[key]
                parent.end("the memory of the pool was needed")

    def cold_keys(self) -> list[dict[str, str]]:
        """What starts cold until its parent is ready again, and why."""
        return [
            {"interpreter": key.python, "reason": reason}
            for key, reason in self.lacking.items()
        ]

    def all_parents(self) -> list[Parent]:
        return [*self.parents.values(), *self.successors.values()]

    def end(self, reason: str) -> None:
        for parent in [*self.all_parents(), *self.retired]:
            parent.end(reason)

    def describe(self) -> dict[str, Any]:
        parents = [parent.describe() for parent in self.all_parents()]
        now = time.monotonic()
        return {
            "memory_mib": round(sum(row["memory_mib"] for row in parents), 1),
            "budget_mib": self.memory_mib,
            "parents": parents,
            "unfit": [
                {"interpreter": key.python, "compiler": key.compiler, "reason": reason}
                for key, (reason, until) in self.unfit.items()
                if now < until
            ],
        }
