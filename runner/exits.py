"""Exit status of commands that run repros: 1 means "bug present" and nothing else."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType


def crash_with_two() -> None:
    """Let an uncaught exception of this process end it with status 2, not 1."""
    sys.excepthook = end


def end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    traceback.print_exception(kind, error, trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)
