"""Checks of a run side by side: some begin before their turn, while a core is free.

Each stays what it was, a process in a sandbox of its own with folders of its own. What
it showed is looked at in its turn: one whose turn never comes is ended, and nothing of
it is told.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner import harness
from runner.pool.memory import free_memory_mib

Tell = Callable[[str, str, str], None]


class Places:
    """The checks that this process has under way, of all of its runs.

    Early ones get what is left of `most`, and of the memory if all use what they may.
    """

    def __init__(
        self, most: int, free_mib: Callable[[], int] = free_memory_mib
    ) -> None:
        self.most = most
        self.free_mib = free_mib
        self.threads = ThreadPoolExecutor(most, "early-check")
        self._lock = threading.Lock()
        self._held_mib: list[int] = []
        self._plans: list[Plan] = []

    def take(self, spec: harness.CheckSpec) -> None:
        """For a check whose turn it is, however many others there are."""
        with self._lock:
            self._held_mib.append(spec.memory_mib)

    def take_free(self, spec: harness.CheckSpec) -> bool:
        """For one that comes later: whether there is a place left for it."""
        with self._lock:
            if len(self._held_mib) >= self.most:
                return False
            if self.free_mib() < sum(self._held_mib) + spec.memory_mib:
                return False
            self._held_mib.append(spec.memory_mib)
            return True

    def leave(self, spec: harness.CheckSpec) -> None:
        with self._lock:
            self._held_mib.remove(spec.memory_mib)
            plans = list(self._plans)
        for plan in plans:
            plan.fill()

    @contextmanager
    def followed(self, plan: Plan) -> Iterator[None]:
        """For the block, the plan is filled whenever a place becomes free."""
        with self._lock:
            self._plans.append(plan)
        try:
            yield
        finally:
            with self._lock:
                self._plans.remove(plan)


PLACES = Places(harness.usable_cpus())
# `early`: the one that this thread is about, or None.
_here = threading.local()


@dataclass
class Early:
    """A check that began before its turn."""

    spec: harness.CheckSpec
    unwanted: bool = False
    report: Future[harness.Report] = field(default_factory=Future)
    _told: Tell | None = None
    _lines: list[tuple[str, str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, check: str, stream: str, text: str) -> None:
        with self._lock:
            if self._told is None:
                self._lines.append((check, stream, text))
            else:
                self._told(check, stream, text)

    @property
    def has_turn(self) -> bool:
        return self._told is not None

    def have_turn(self, tell: Tell) -> None:
        """Its turn has come: tell what it said, and from now on what it says."""
        with self._lock:
            for line in self._lines:
                tell(*line)
            self._told = tell


class Plan:
    """What a run asks for next, and what of it has begun already."""

    def __init__(self, specs: Sequence[harness.CheckSpec], side: SideBySide) -> None:
        self.side = side
        self._lock = threading.Lock()
        self._left = deque(specs)
        self._begun: list[Early] = []

    def fill(self) -> None:
        """Begin what comes next, as long as there is a place for it."""
        places = self.side.places
        with self._lock:
            while self._left and not self.side.is_cancelled():
                if not places.take_free(self._left[0]):
                    return
                early = Early(self._left.popleft())
                early.report = places.threads.submit(self._run, early)
                self._begun.append(early)

    def _run(self, early: Early) -> harness.Report:
        _here.early = early
        try:
            return self.side.start(early.spec)
        finally:
            _here.early = None
            self.side.places.leave(early.spec)

    def begun(self, spec: harness.CheckSpec) -> Early | None:
        """The check whose turn it is, if it has begun; else it no longer will here."""
        with self._lock:
            for early in self._begun:
                if early.spec == spec and not early.has_turn:
                    return early
            if spec in self._left:
                self._left.remove(spec)
        return None

    def close(self) -> None:
        """End what is still under way; nothing of it is left when this returns."""
        with self._lock:
            self._left.clear()
            for early in self._begun:
                early.unwanted = True
        wait([early.report for early in self._begun])


class SideBySide:
    """A `harness.Planner` for the checks of one run.

    `start`, set once it is made, starts one check; it tells its lines to `tell` and
    asks `is_cancelled`.
    """

    start: harness.Start

    def __init__(
        self,
        tell: Tell | None,
        cancelled: Callable[[], bool] | None,
        places: Places = PLACES,
    ) -> None:
        self.places = places
        self._tell = tell or (lambda check, stream, text: None)
        self._cancelled = cancelled or (lambda: False)
        self._plan = Plan([], self)

    def __call__(self, spec: harness.CheckSpec) -> harness.Report:
        if early := self._plan.begun(spec):
            early.have_turn(self._tell)
            return early.report.result()
        self.places.take(spec)
        try:
            self._plan.fill()
            return self.start(spec)
        finally:
            self.places.leave(spec)

    @contextmanager
    def plan(self, specs: Sequence[harness.CheckSpec]) -> Iterator[None]:
        plan = self._plan = Plan(specs, self)
        try:
            with self.places.followed(plan):
                yield
        finally:
            plan.close()

    def tell(self, check: str, stream: str, text: str) -> None:
        """Tell a line of the check that this thread is about."""
        early: Early | None = getattr(_here, "early", None)
        (early.tell if early else self._tell)(check, stream, text)

    def is_cancelled(self) -> bool:
        """Whether the check that this thread is about is to end."""
        early: Early | None = getattr(_here, "early", None)
        return bool(early and early.unwanted) or self._cancelled()
