"""Where an interpreter has its files: asked of the interpreter itself."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner import harness

CHECKOUT = Path(harness.__file__).resolve().parent.parent
# Folders that may be on somebody's search path, but hold what is none of a run's
# business; names below the root.
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
    """What the interpreter says of itself; asked once for each state of the file."""
    try:
        changed = Path(interpreter).stat().st_mtime_ns
    except OSError:
        return Layout(interpreter)
    return _layout(interpreter, changed)


@functools.lru_cache(maxsize=256)
def _layout(interpreter: str, changed: int) -> Layout:
    try:
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
        said = json.loads(done.stdout.splitlines()[-1])
        folders = [part for path in said["prefixes"] for part in narrow(path)]
        folders += [path for path in said["path"] if not too_wide(path)]
        files = tuple(map(str, said["files"]))
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        # It does not work; the check that it is started for will show how.
        return Layout(interpreter, files=(interpreter,))
    return Layout(interpreter, tuple(dict.fromkeys(folders)), files)


def environment() -> dict[str, str]:
    """What of this process's environment a run may see."""
    names = (name for name in harness.INHERITED_ENV if name in os.environ)
    return {name: os.environ[name] for name in names}


def too_wide(path: str) -> bool:
    """Whether showing this folder would show far more than a build."""
    real = Path(path).resolve()
    private = (Path.home(), Path(tempfile.gettempdir()), CHECKOUT)
    return str(real)[1:] in TOO_WIDE or any(
        item.resolve().is_relative_to(real) for item in private
    )


def narrow(prefix: str) -> Sequence[str]:
    """A prefix, or its usual parts where it is also the folder of something else."""
    if not too_wide(prefix):
        return [prefix]
    return [str(Path(prefix) / name) for name in PARTS] if prefix != "/" else []


def chain(interpreter: str) -> Iterator[str]:
    """An interpreter and every name that leads to it through symbolic links."""
    path = Path(interpreter)
    for _ in range(40):
        yield str(path)
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))


def readable_by_others(layout: Layout, *, with_parents: bool) -> bool:
    """Whether a user who owns nothing can use the build.

    `with_parents`: the folders above count too, as no view gives them other ones.
    """
    paths = [layout.interpreter, *layout.folders, *layout.files]
    for path in map(Path, map(os.path.realpath, paths)):
        steps = [path, *path.parents] if with_parents else [path]
        if not all(map(open_to_others, steps)):
            return False
    return True


def open_to_others(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return True  # What does not exist hinders nobody.
    wanted = 0o005 if path.is_dir() else 0o004
    return mode & wanted == wanted
