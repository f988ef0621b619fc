"""What a check of a record found: one part for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Part:
    """`problems` are missing or wrong, `notes` are worth knowing.

    `skipped`: why it was not looked at, which is no problem of its own.
    """

    title: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""

    def lines(self) -> Iterator[str]:
        mark = "–" if self.skipped else "✖" if self.problems else "✔"
        yield f"{mark} {self.title}" + (f": {self.skipped}" if self.skipped else "")
        yield from (f"  {text}" for text in (*self.problems, *self.notes))
