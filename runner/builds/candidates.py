"""Pythons of this machine that may have a torch of their own, and why they are asked.

None of them is ever written to. Standard library and settings only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from runner.builds import venvs

NAME = re.compile(r"python(?:3(?:\.\d+)?)?")
FIND_S = 20
# Exit status 0 where torch could be imported; nothing is imported for the answer.
HAS_TORCH = "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"


@dataclass(frozen=True)
class Candidate:
    interpreter: Path
    why: str


def interpreter_of(path: Path) -> Path:
    """The interpreter of a path, which may be the folder of an environment."""
    path = path.expanduser().absolute()
    return venvs.python_of(path) if is_there(path) and path.is_dir() else path


def is_there(path: Path) -> bool:
    """Whether there is such a file; False where its folders are closed to us."""
    try:
        return path.exists()
    except PermissionError:
        return False


def declared() -> list[Candidate]:
    """What the setting BUILDS names."""
    return [Candidate(interpreter_of(path), "BUILDS") for path in settings.BUILDS]


def likely() -> list[Candidate]:
    """The active environment, then every Python on the PATH."""
    found = [
        Candidate(interpreter_of(Path(value)), name)
        for name, value in settings.ACTIVE_ENVIRONMENTS.items()
        if value
    ]
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return found + [Candidate(path, "PATH") for path in on(filter(None, folders))]


def on(folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(Path(folder).absolute().glob("python*")):
            if NAME.fullmatch(path.name) and os.access(path, os.X_OK):
                # Not the link's target: python3 -> python3.11 is one environment.
                yield path.parent.resolve() / path.name


def environment_of(interpreter: Path) -> tuple[str, str]:
    """Equal for the names that one environment has for its Python."""
    return os.path.realpath(interpreter.parent), os.path.realpath(interpreter)


def new_with_torch(known: Iterable[Path]) -> Iterator[Candidate]:
    """The likely Pythons that have a torch and are of no known environment."""
    seen = {environment_of(path) for path in known}
    seen.add(environment_of(Path(sys.executable)))
    for candidate in likely():
        environment = environment_of(candidate.interpreter)
        if environment not in seen and has_torch(candidate.interpreter):
            yield candidate
        seen.add(environment)


def has_torch(interpreter: Path) -> bool:
    """Whether it would find a torch; what that is worth shows the probe."""
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    try:
        done = subprocess.run(  # noqa: S603
            [str(interpreter), "-B", "-c", HAS_TORCH],
            env=environ,
            cwd="/",  # where no folder named torch is imported by accident
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=FIND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return not done.returncode
