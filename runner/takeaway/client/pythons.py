"""Which Python has the torch that is asked about: this one, or one around it.

A tool that uv or pipx installed has an environment of its own, without torch. Nothing
is written to any of these, and torch is not imported for the answer.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from typing import Iterator

FIND_S = 20
HAS_TORCH = "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


class NoTorch(Exception):
    """No Python with torch was found."""


def with_torch(command: str) -> str:
    """The path of the first that has one; said on stderr where it is not this one.

    Raises NoTorch.
    """
    if importlib.util.find_spec("torch"):
        return sys.executable
    for path in around():
        if has_torch(path):
            sys.stderr.write("doesitnan %s: the torch of %s\n" % (command, path))
            return path
    named = "doesitnan watch PYTHON train.py" if command == "watch" else "--python PATH"
    raise NoTorch(
        "found no Python with torch (looked at this one, %s, PATH): activate one, or "
        "name it: %s" % (", ".join(ACTIVE), named)
    )


def around() -> Iterator[str]:
    """The active environment's, then those of the PATH."""
    inner = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    for name in ACTIVE:
        folder = os.environ.get(name)
        if folder:
            yield os.path.join(folder, *inner)
    for name in ("python", "python3"):
        path = shutil.which(name)
        if path:
            yield path


def has_torch(path: str) -> bool:
    # As the shell means it: it is started from its own folder.
    path = os.path.abspath(path) if os.path.dirname(path) else path
    try:
        done = subprocess.run(
            [path, "-B", "-c", HAS_TORCH],
            # Where no folder named torch is found by accident.
            cwd=os.path.dirname(path) or os.curdir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=FIND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return not done.returncode
