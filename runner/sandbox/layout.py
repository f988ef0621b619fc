"""Where an interpreter has its files, as the interpreter itself reports them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from portable import harness

CHECKOUT = Path(harness.__file__).resolve().parents[2]
# Top-level folders that may be on a search path but hold data a run must not see.
TOO_WIDE = frozenset({"", "etc", "home", "root", "srv", "tmp", "var", "opt", "mnt"})
PARTS = ("bin", "lib", "lib64", "include", "share", "pyvenv.cfg")
PROBE = """\
import json, os, site, sys, sysconfig
user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
print(json.dumps({
    "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix],
    "path": [p for p in sys.path + [user] if p],
    "files": [sys.executable, os.__file__, sysconfig.get_path("include")],
}))
"""


@dataclass(frozen=True)
class Layout:
    """Folders and single files that an interpreter needs, under its own names."""

    interpreter: str
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def layout_of(interpreter: str) -> Layout:
    """The layout of an interpreter, cached until its file changes."""
    try:
        changed = Path(interpreter).stat().st_mtime_ns
    except OSError:
        return Layout(interpreter)
    try:
        return _layout(interpreter, changed)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        # It does not work; the check will report how. Not kept: a fork that failed, or
        # a machine that stalled, says nothing of the next time.
        return Layout(interpreter, files=(interpreter,))


@functools.lru_cache(maxsize=256)
def _layout(interpreter: str, changed: int) -> Layout:
    """Raises what goes wrong, which is not cached."""
    done = subprocess.run(
        [interpreter, "-c", PROBE],
        # Its user's own packages count, as they do in the check.
        env={**environment(), "HOME": str(Path.home())},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=harness.PROBE_TIMEOUT_S,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    folders = [part for path in report["prefixes"] for part in narrow(path)]
    folders += [path for path in report["path"] if not too_wide(path)]
    files = tuple(map(str, report["files"]))
    return Layout(interpreter, tuple(dict.fromkeys(folders)), files)


def environment() -> dict[str, str]:
    """The variables of this process that a run may see."""
    names = (name for name in harness.INHERITED_ENV if name in os.environ)
    return {name: os.environ[name] for name in names}


def too_wide(path: str) -> bool:
    """Whether this folder contains far more than a build."""
    real = Path(path).resolve()
    private = (Path.home(), Path(tempfile.gettempdir()), CHECKOUT)
    return str(real)[1:] in TOO_WIDE or any(
        item.resolve().is_relative_to(real) for item in private
    )


def narrow(prefix: str) -> Sequence[str]:
    """A prefix, or its usual subfolders where the prefix itself is too wide."""
    if not too_wide(prefix):
        return [prefix]
    return [str(Path(prefix) / name) for name in PARTS] if prefix != "/" else []


def chain(interpreter: str) -> Iterator[str]:
    """An interpreter and every path in its chain of symbolic links."""
    path = Path(interpreter)
    for _ in range(40):
        yield str(path)
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))


def closed_part(layout: Layout, *, with_parents: bool) -> str:
    """The first path that keeps other users from reading the build; "" without one.

    `with_parents`: including the folders above, which no view replaces.
    """
    paths = [layout.interpreter, *layout.folders, *layout.files]
    for path in map(Path, map(os.path.realpath, paths)):
        if not path.exists():
            continue  # It hinders nobody, such as a folder of root's own packages.
        steps = [*reversed(path.parents), path] if with_parents else [path]
        for step in steps:
            if not open_to_others(step):
                return str(step)
    return ""


def open_to_others(path: Path) -> bool:
    mode = path.stat().st_mode
    required = 0o005 if path.is_dir() else 0o004
    return mode & required == required
