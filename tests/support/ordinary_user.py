"""An ordinary user in a namespace without network, for programs that are carried away.

Root becomes uid 65534; whoever runs the tests as an ordinary user stays who they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

NOBODY = 65534
BECOME = ("--reuid=65534", "--regid=65534", "--clear-groups")


@dataclass(frozen=True)
class Ordinary:
    """`prefix`: what stands before a command so that it runs as that user."""

    prefix: tuple[str, ...]

    @property
    def uid(self) -> int:
        return os.geteuid() or NOBODY

    def own(self, folder: Path) -> None:
        """Let that user read and write everything in `folder`."""
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)


def ordinary(python: str) -> Ordinary:
    """The user; the script `python` is made to start a Python that they may start."""
    if os.geteuid() == 0:
        prefix = ("unshare", "-n", "setpriv", *BECOME)
        interpreter = next(filter(startable, (sys.executable, *system_pythons())), "")
    else:
        prefix, interpreter = ("unshare", "-rn"), sys.executable
    works = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    if works.returncode or not interpreter:
        raise SkipTest("no namespace without a network, or no Python for another user")
    script = Path(python)
    script.write_text(script.read_text().replace(sys.executable, interpreter))
    return Ordinary(prefix)


def startable(python: str) -> bool:
    old = "import sys; sys.exit(sys.version_info < (3, 10))"
    # By a shell: setpriv itself still has root's right to start what it wants.
    shell = ["sh", "-c", 'exec "$0" -c "$1"', python, old]
    command = ["setpriv", *BECOME, *shell]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def system_pythons() -> list[str]:
    found = (shutil.which("python3", path=place) for place in ("/usr/bin", "/bin"))
    return [path for path in found if path]
