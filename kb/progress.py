"""Work behind the running site, told to its pages: loading records, getting a torch.

Each kind of work has one small file in DATA_DIR, replaced as a whole. It names the
process that writes it, so what a killed one left behind says nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from django.conf import settings


class Work(StrEnum):
    RECORDS = "records"
    EVIDENCE = "evidence"
    TORCH = "torch"


@dataclass(frozen=True)
class Step:
    """How far a piece of work is. `total` is 0 where nobody knows yet.

    `name`: what it is about, such as the build that is installed, or "".
    """

    work: Work
    done: int = 0
    total: int = 0
    name: str = ""


Tell = Callable[[int, int, str], None]


def file_of(work: Work) -> Path:
    return Path(settings.DATA_DIR) / "progress" / f"{work}.json"


@contextmanager
def of(work: Work) -> Iterator[Tell]:
    """Show this work on the pages until the block ends: `tell(done, total, name)`."""
    tell = begin(work)
    try:
        yield tell
    finally:
        end(work)


def begin(work: Work) -> Tell:
    """Show this work on the pages, in place of who did so before, while we live."""
    path, pid = file_of(work), os.getpid()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{work}.{pid}")

    def tell(done: int, total: int, name: str = "") -> None:
        facts = {"done": done, "total": total, "name": name}
        draft.write_text(json.dumps({**facts, "pid": pid, "born": born(pid)}))
        draft.replace(path)

    tell(0, 0)
    return tell


def end(work: Work) -> None:
    file_of(work).unlink(missing_ok=True)


def underway() -> list[Step]:
    """What is being done right now, in the order of a first start."""
    steps = (read(work) for work in Work)
    return [step for step in steps if step]


def read(work: Work) -> Step | None:
    """How far a piece of work is; None where no living process does it."""
    try:
        facts = json.loads(file_of(work).read_text())
        if not facts["born"] or born(facts["pid"]) != facts["born"]:
            return None
        return Step(work, facts["done"], facts["total"], facts["name"])
    except (OSError, ValueError, KeyError):
        return None


def born(pid: int) -> str:
    """When a process was started, in ticks, as numbers are given anew; "" once over."""
    with contextlib.suppress(OSError, IndexError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # The 22nd field of proc(5); the state is the third.
        return "" if state in "ZX" else rest[18]
    return ""
