"""Where a check of a repro stands, and what it printed last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST_LOG_LINES = 5


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
