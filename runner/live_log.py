"""The log of a run as it goes on: rows that a page asks for by number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Max

from runner.ledger import held
from runner.models import LogChunk, Run

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
            stream=line.stream[:6],
            text=text,
            at=line.at,
        )
