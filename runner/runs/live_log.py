"""The log of a run: numbered rows, while it is active and afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Max

from kb.choices import Outcome
from runner.models import LogChunk, Run
from runner.runs.jobs import held

# Of one run, over all attempts; the evidence keeps head and tail of each check.
LOG_LIMIT_BYTES = 1024 * 1024
LOG_LIMIT_LINES = 20_000
LOG_CUT = (
    "[live log cut here: 1 MiB or 20,000 lines; the evidence keeps head and tail of "
    "each check | 实时日志到此截断：1 MiB 或 2 万行；证据中保留每项检查的首尾]"
)


@dataclass(frozen=True)
class Line:
    """One line of a check's output, `at` seconds after the attempt began."""

    check: str
    stream: str
    text: str
    at: float


# The stream of lines that say where the run is, and what stands between the two parts
# of such a line: "control · started", "control · clean  loss 0.3".
PHASE = "phase"
PHASE_GAP = " · "


def phase_line(phase: str, text: str, at: float) -> Line:
    check = phase.partition(" ")[0]
    return Line(check, PHASE, f"{phase}{PHASE_GAP}{text}", at)


@dataclass(frozen=True)
class Step:
    """A check as the live log tells it; without `ended` it is under way."""

    phase: str
    began: float
    ended: float | None = None
    outcome: str = ""


class LiveLog:
    """Appends to a run's log; goes on where an earlier attempt ended."""

    def __init__(self, run: Run) -> None:
        self.run = run
        rows = LogChunk.objects.filter(run=run)
        self.seq = rows.aggregate(last=Max("seq"))["last"] or 0
        self.bytes = sum(
            len(text.encode()) for text in rows.values_list("text", flat=True)
        )
        self.full = rows.filter(text=LOG_CUT).exists()

    def append(self, lines: Iterable[Line]) -> None:
        """Store the lines while this attempt holds the run; say where it was cut."""
        rows = [self._row(line) for line in lines if not self.full]
        if rows and held(self.run).exists():
            LogChunk.objects.bulk_create(rows)

    def _row(self, line: Line) -> LogChunk:
        self.seq += 1
        self.bytes += len(line.text.encode(errors="replace"))
        text = line.text
        if self.bytes > LOG_LIMIT_BYTES or self.seq >= LOG_LIMIT_LINES:
            self.full = True
            text = LOG_CUT
        return LogChunk(
            run=self.run,
            seq=self.seq,
            attempt=self.run.attempt,
            check_name=line.check[:80],
            stream=line.stream,
            text=text,
            at=line.at,
        )


def lines(run: Run, after: int, limit: int) -> list[LogChunk]:
    """Up to `limit` lines after number `after`."""
    return list(run.log.filter(seq__gt=after).order_by("seq")[:limit])


def steps(run: Run) -> list[Step]:
    """The checks that this attempt has begun, in order."""
    rows = run.log.filter(attempt=run.attempt, stream=PHASE).order_by("seq")
    found: dict[str, Step] = {}
    for text, at in rows.values_list("text", "at"):
        phase, _, said = text.partition(PHASE_GAP)
        outcome = said.partition(" ")[0].rstrip(":")
        begun = found.get(phase)
        if begun and outcome in Outcome.values:
            found[phase] = Step(phase, begun.began, at, outcome)
        elif not begun:
            found[phase] = Step(phase, at)
    return list(found.values())
