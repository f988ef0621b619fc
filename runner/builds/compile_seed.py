"""What every program that compiles needs first, compiled once for a build.

Inductor precompiles one large header and tries what vectors the processor has: 14 of
the 20 s of processor time that a first torch.compile takes. A program of ours does
that in the sandbox; each repro's empty cache then begins with a copy. No repro can
write to the seed, so none can reach another through it. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

from runner.builds import compile_cache

PROGRAM = """\
# /// script
# dependencies = ["torch>=2.0"]
# [tool.doesitnan]
# fidelity = "real_kernel"
# device = "cpu"
# bug = "shown > 0"
# needs = ["compiler"]
# timeout_s = 300
# memory_mib = 4096
# ///

def control():
    return {"shown": 0}


def detector():
    return {"shown": 1}


def trigger():
    return {"shown": 0}
"""
NAME = "seed"
# Holds whether the program compiled; where it did not, it is tried again after this.
MADE = "made"
AGAIN_S = 600.0


def ready(root: Path, interpreter: str, make: Callable[[str], bool]) -> str:
    """The seed of this interpreter, made by `make(folder)` if need be; "" for none.

    Others that ask meanwhile wait for it: each alone would take as long.
    """
    folder = root / compile_cache.interpreter_key(interpreter) / NAME
    lock = compile_cache.locked(folder, fcntl.LOCK_EX, mode=0o755)
    try:
        files, made = folder / "files", folder / MADE
        if not is_current(made):
            shutil.rmtree(files, ignore_errors=True)
            found = make(str(files))
            if found:
                take_over(files)
            made.write_text("yes" if found else "no")
        return str(files) if made.read_text() == "yes" else ""
    finally:
        os.close(lock)


def is_current(made: Path) -> bool:
    try:
        age_s = time.time() - made.stat().st_mtime
        return made.read_text() == "yes" or age_s < AGAIN_S
    except FileNotFoundError:
        return False


def take_over(files: Path) -> None:
    """Make the files this user's, for others to read: no run writes there again."""
    for folder, _folders, names, handle in os.fwalk(files):
        os.fchown(handle, os.geteuid(), os.getegid())
        os.fchmod(handle, 0o755)
        for name in names:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                os.unlink(name, dir_fd=handle)
                continue
            os.chown(
                name,
                os.geteuid(),
                os.getegid(),
                dir_fd=handle,
                follow_symlinks=False,
            )
            (Path(folder) / name).chmod(0o755 if status.st_mode & 0o100 else 0o644)


def plant(seed: str, files: str, owner: tuple[int, int] | None) -> None:
    """Begin a cache that does not exist yet with a copy of the seed, owned by its user.

    `owner`: user and group of the runs that share it; None for this process's own.
    """
    if not seed or Path(files).exists():
        return
    copy = Path(f"{files}.new")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(seed, copy, symlinks=True)
    for _folder, _folders, names, handle in os.fwalk(copy):
        for name in names:
            if owner:
                os.chown(name, *owner, dir_fd=handle, follow_symlinks=False)
        os.fchmod(handle, 0o700)
        if owner:
            os.fchown(handle, *owner)
    copy.rename(files)
