"""What a check of a record found: one part for each thing that was looked at.

Problems name the place of a check in its repro, and what it printed last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_LOG_LINES = 5


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


def tail(check: Mapping[str, Any]) -> str:
    """The last lines of a check's log, each on a line of its own."""
    lines = [line for line in check["log"]["text"].splitlines() if line.strip()]
    return "".join(f"\n    | {line}" for line in lines[-MOST_LOG_LINES:])


def place_of(path: Path, check: str) -> str:
    """ "folder/repro.py:31" of a check, without line where it has no function."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = (n for n, line in enumerate(lines, 1) if line.startswith(f"def {check}("))
    line = next(at, 0)
    name = f"{path.parent.name}/{path.name}"
    return f"{name}:{line}" if line else name
