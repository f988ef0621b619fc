"""The Pythons of this machine that the site may run on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

OLDEST = (3, 11)
NAME = re.compile(r"python3(?:\.\d+)?")
# Beside the PATH: where systems keep theirs, and the versions that pyenv and uv keep.
SYSTEM = ("/usr/local/bin", "/usr/bin")
VERSIONS = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
WHICH = "import platform, sys; print(platform.python_version(), sys.executable)"


@cache
def at_hand() -> dict[str, str]:
    """Version -> program, one of each release from `OLDEST` on; this one among them."""
    found = {".".join(map(str, sys.version_info[:3])): sys.executable}
    for program in programs():
        # A version manager's may be a name without a Python behind it.
        command = [str(program), "-I", "-c", WHICH]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        version, _, path = done.stdout.strip().partition(" ")
        numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
        if done.returncode == 0 and numbers >= OLDEST:
            found.setdefault(version, path)
    return found


def programs() -> list[Path]:
    listed = [Path(folder) for folder in os.get_exec_path()]
    kept = [folder for places in VERSIONS for folder in Path.home().glob(places)]
    folders = dict.fromkeys([*listed, *map(Path, SYSTEM), *kept])
    files = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
    return sorted(
        file for file in files if NAME.fullmatch(file.name) and os.access(file, os.X_OK)
    )
