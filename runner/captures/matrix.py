"""What a capture shows on the builds where it ran: each, and where it turns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from kb.versions.order import build_order
from runner.models import Capture, CaptureRun

Outcome = CaptureRun.Outcome
BAD = (Outcome.NAN, Outcome.INF)
JUDGED = (*BAD, Outcome.FINITE)
# What builds of a group say alike, beside `said`.
TOLD = ("law", "class", "heals", "ways", "is_theirs")


@dataclass(frozen=True)
class Turn:
    """Two neighbours between which it changes; `is_bad`: what the second shows."""

    before: CaptureRun
    after: CaptureRun

    @property
    def is_bad(self) -> bool:
        return self.after.outcome in BAD


def runs_of(capture: Capture) -> list[CaptureRun]:
    """Oldest build first."""
    rows = capture.runs.select_related("build")
    return sorted(rows, key=lambda run: build_order(run.build.raw, run.build_id))


def turns(runs: Iterable[CaptureRun]) -> list[Turn]:
    """First bad and first good builds, among those with an outcome."""
    judged = [run for run in runs if run.outcome in JUDGED]
    found = [Turn(one, other) for one, other in pairwise(judged)]
    return [turn for turn in found if turn.is_bad != (turn.before.outcome in BAD)]


def first(runs: Iterable[CaptureRun], *, bad: bool) -> CaptureRun | None:
    """The first build of the last turn to bad, or to good; None where none turned."""
    found = [turn.after for turn in turns(runs) if turn.is_bad is bad]
    return found[-1] if found else None


def groups(runs: Iterable[CaptureRun]) -> list[list[CaptureRun]]:
    """Builds that show the same for the same reason; the newest build's first."""
    found: dict[str, list[CaptureRun]] = {}
    for run in reversed([run for run in runs if run.outcome]):
        told = [run.found.get(name) for name in TOLD]
        # But for its own number.
        said = re.sub(r"^torch \S+ ", "", run.found.get("said", ""))
        key = repr((run.outcome, run.reason, told, said))
        found.setdefault(key, []).append(run)
    return list(found.values())
