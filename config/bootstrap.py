"""From a clean clone to the site's environment; run by make, needs nothing installed.

Usage: bootstrap.py run [argument of `manage.py up` ...] | dev | client | check

Its syntax is Python 3.6's, so that an old Python gets far enough to say what is
missing instead of printing a traceback.
"""

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)
NEWER = ("python3.11", "python3.12", "python3.13", "python3.14")
# Free disk that is asked for; a build is downloaded and unpacked before it is done.
BUILD_MIB = 3072
VENV_MIB = 600
RUN_MIB = 100
LOCKS = {
    "run": "requirements.txt",
    "check": "requirements.txt",
    "client": "requirements.txt",
    "dev": "requirements-dev.txt",
}
INDEX = (
    "`python3 -m pip config list` shows which index pip asks; PIP_INDEX_URL takes "
    "its place"
)
USAGE = "usage: bootstrap.py run [argument of up ...] | dev | client | check"


def data_dir() -> Path:
    """As config.datadir has it; that module cannot be imported this early."""
    return Path(os.environ.get("DATA_DIR") or ROOT / "var").expanduser().absolute()


def builds_dir() -> Path:
    return Path(os.environ.get("BUILDS_DIR") or data_dir() / "builds").absolute()


def say(text: str) -> None:
    print(text, flush=True)


def runs(python: str, code: str = "") -> bool:
    """Whether a Python can be started here and ends this code well."""
    null = subprocess.DEVNULL
    try:
        return not subprocess.call([python, "-c", code], stdout=null, stderr=null)
    except OSError:
        return False


# --- what is missing ----------------------------------------------------------


def newer_python() -> Optional[str]:
    """The path of a Python on this machine that is new enough."""
    for name in NEWER:
        path = shutil.which(name)
        # A version manager's launcher exists for versions that are switched off.
        if path and runs(path):
            return path
    return None


def install_command() -> str:
    """The one command that gets a Python with venv and ensurepip here."""
    exact = "python{}.{}".format(*max(OLDEST, sys.version_info[:2]))
    sudo = "" if os.geteuid() == 0 else "sudo "
    if shutil.which("apt-get"):
        return "{}apt-get install {} {}-venv".format(sudo, exact, exact)
    if shutil.which("dnf"):
        return "{}dnf install {}".format(sudo, exact)
    if shutil.which("apk"):
        return "{}apk add python3 py3-pip".format(sudo)
    return "install Python 3.11 or newer, with its venv and ensurepip modules"


def missing_python() -> List[str]:
    if sys.version_info < OLDEST:
        return [
            "Python {}.{} is too old, 3.11 or newer is needed: {}".format(
                sys.version_info[0], sys.version_info[1], install_command()
            )
        ]
    return []


def has_module(name: str) -> bool:
    """Distributions split the standard library; an emptied folder has no file."""
    try:
        return bool(getattr(__import__(name), "__file__", None))
    except ImportError:
        return False


def missing_modules() -> List[str]:
    missing = [name for name in ("venv", "ensurepip") if not has_module(name)]
    if not missing:
        return []
    return [
        "this Python ({}) has no {}: {}".format(
            sys.executable, " and no ".join(missing), install_command()
        )
    ]


def nearest_existing(path: Path) -> Path:
    while not os.path.exists(str(path)):
        path = path.parent
    return path


def missing_space(needed: Dict[Path, int]) -> List[str]:
    """One line for each file system with less free than a folder needs, in MiB."""
    lines = {}
    for target, needed_mib in sorted(needed.items(), key=lambda item: item[1]):
        folder = nearest_existing(target)
        free = shutil.disk_usage(str(folder)).free // 2**20
        if free < needed_mib:
            lines[folder.stat().st_dev] = (
                "{} has {} MiB free, {} MiB are needed: free some space or set "
                "DATA_DIR to a folder on a larger disk".format(folder, free, needed_mib)
            )
    return list(lines.values())


def can_write(folder: Path) -> bool:
    """Tried, not asked: a read-only disk and root's rights fool a question."""
    try:
        tempfile.TemporaryFile(dir=str(folder)).close()
    except OSError:
        return False
    return True


def missing_write(ready: bool) -> List[str]:
    """One line for each folder in which nothing can be made, with what helps there.

    Once .venv is made nothing more is written to the clone itself.
    """
    data = nearest_existing(data_dir())
    if not ready and not can_write(ROOT):
        hint = "clone the repository to a folder of your own"
        lines = ["{} cannot be written: {}".format(ROOT, hint)]
        if data == ROOT:
            return lines
    else:
        lines = []
    if not can_write(data):
        hint = "set DATA_DIR to a folder of your own"
        lines.append("{} cannot be written: {}".format(data, hint))
    return lines


def missing_port(host: str, port: str) -> List[str]:
    if not port.isdigit() or not 0 < int(port) < 65536:
        return ["PORT must be a number from 1 to 65535, not {!r}".format(port)]
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            other = int(port) + 1 if int(port) < 65535 else 8000
            line = "port {} is in use: give another, such as `make run PORT={}`"
            return [line.format(port, other)]
        return ["{}:{} cannot be used: {}".format(host, port, error)]
    return []


def missing_lock() -> List[str]:
    # It needs Python 3.11, which has been looked at by now.
    from runner.builds import venvs

    owner = venvs.owner_of(data_dir() / "run.lock")
    if owner is None:
        return []
    return [
        "this site is running already{}: stop it first, or give another DATA_DIR "
        "and PORT".format(" (process {})".format(owner) if owner else "")
    ]


def is_installed(goal: str) -> bool:
    """Whether .venv works and was made from the lock as it is now."""
    stamp = VENV / ".{}.digest".format(LOCKS[goal])
    if not stamp.is_file() or stamp.read_text() != lock_digest(goal):
        return False
    return runs(str(VENV / "bin" / "python"))


def is_ready(goal: str) -> bool:
    """The developer's environment serves for all."""
    return is_installed(goal) or is_installed("dev")


def has_build() -> bool:
    return any(
        not Path(str(path.parent) + ".incomplete").exists()
        for path in builds_dir().glob("*/bin")
    )


def problems(goal: str) -> List[str]:
    """Everything that stands in the way, one line each."""
    lines = missing_python()
    if lines:
        return lines
    ready = is_ready(goal)
    lines = [] if ready else missing_modules()
    closed = missing_write(ready)
    lines += closed or missing_space(space_needed(goal, ready))
    if goal in ("dev", "client"):
        return lines
    # The site that runs already holds its port too: one line is enough.
    occupied = [] if closed else missing_lock()
    host = os.environ.get("HOST") or "127.0.0.1"
    return lines + (occupied or missing_port(host, os.environ.get("PORT") or "8000"))


def space_needed(goal: str, ready: bool) -> Dict[Path, int]:
    """Free disk each folder needs, in MiB."""
    needed = {data_dir(): RUN_MIB, ROOT: RUN_MIB if ready else VENV_MIB}
    if goal != "client" and not has_build():
        needed[builds_dir()] = BUILD_MIB
    return needed


# --- the environment ----------------------------------------------------------


def lock_digest(goal: str) -> str:
    """What .venv depends on: the lock and the Python it was made for."""
    content = (ROOT / LOCKS[goal]).read_bytes()
    return "{} {}.{}".format(hashlib.sha256(content).hexdigest(), *sys.version_info[:2])


def install(goal: str) -> None:
    """Bring .venv to the lock; nothing is done when it is there already."""
    if is_ready(goal):
        return
    from runner.builds import venvs

    with venvs.timed(say, "Installing {} into .venv".format(LOCKS[goal])):
        if not is_working():
            venvs.create(VENV)
        for stamp in VENV.glob(".*.digest"):
            stamp.unlink()
        arguments = ["--require-hashes", "-r", str(ROOT / LOCKS[goal])]
        venvs.pip_install(VENV, arguments, say)
        venvs.compile_all(VENV)
        (VENV / ".{}.digest".format(LOCKS[goal])).write_text(lock_digest(goal))
    say("  .venv takes {} MiB".format(venvs.disk_bytes(VENV) // 2**20))


def is_working() -> bool:
    """Whether .venv has this Python and a pip, so that it can be added to."""
    version = "import sys, pip; sys.exit(sys.version_info[:2] != {})".format(
        tuple(sys.version_info[:2])
    )
    return runs(str(VENV / "bin" / "python"), version)


def refuse(lines: List[str]) -> int:
    say("Cannot start yet:")
    for line in lines:
        say("  - " + line)
    return 1


def main(arguments: List[str]) -> int:
    goal = arguments[0] if arguments else ""
    if goal not in LOCKS:
        say(USAGE)
        return 2
    # The site looks there for a torch, once it runs under the Python of .venv.
    os.environ["CALLING_PYTHON"] = os.environ.get("CALLING_PYTHON") or sys.executable
    if sys.version_info < OLDEST:
        newer = newer_python()
        if newer:
            os.execv(newer, [newer, str(Path(__file__).resolve()), *arguments])
    # As a script, this file's folder would come first and hide installed packages.
    sys.path[0] = str(ROOT)
    lines = problems(goal)
    if lines:
        return refuse(lines)
    if goal == "check":
        return 0
    from runner.builds import venvs

    try:
        with venvs.lock(data_dir() / "install.lock"):
            install(goal)
    except venvs.LockHeld as error:
        return refuse(["process {} is installing into .venv".format(error.owner)])
    except venvs.InstallError as error:
        failed = "the packages could not be installed:\n{}".format(error)
        return refuse([failed, INDEX] if error.is_of_the_index else [failed])
    if goal == "run":
        python = str(VENV / "bin" / "python")
        command = [python, str(ROOT / "manage.py"), "up", *arguments[1:]]
        os.execve(python, command, venvs.clean_environ())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
