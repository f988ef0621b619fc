"""Virtual environments with plain progress lines, and locks between processes.

Standard library only: `make run` starts here, before the site's packages exist.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Timer

Progress = Callable[[str], None]
MOST_LINES = 40  # of an installer's errors
# Output lines of pip that are shown as progress: large downloads.
LARGE = re.compile(r"Downloading .*\([\d.]+ [MG]B\)")
# What pip says when an index gives no answer; a proxy's failure names no host.
NO_ANSWER = re.compile(r"connection broken by .*\(host='([^']+)'")
# What pip says where the cause lies with the index: no answer, no access, no such file.
INDEX_MATTERS = re.compile(
    r"could not connect to|No matching distribution|Could not fetch|HTTP error"
    r"|Error, Credentials|DO NOT MATCH THE HASHES|SSLError|Read timed out"
)
# What somebody put before the host of an address.
CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
LOCK_NAME = "installing.lock"
# Starts a command that dies with this process (PR_SET_PDEATHSIG): it must not write
# on into a folder that the next installation removes.
DIES_WITH_US = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) or os._exit(9)\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)
# These would make pip or Python use other folders than the environment's.
DROPPED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")


class InstallError(Exception):
    """An environment could not be made; the text has pip's errors, whole."""

    @property
    def reason(self) -> str:
        """The text's last error, in one line."""
        lines = str(self).splitlines() or [""]
        return next(filter(is_error, reversed(lines)), lines[-1])

    @property
    def is_of_the_index(self) -> bool:
        return bool(INDEX_MATTERS.search(str(self)))


class LockHeld(Exception):
    """Another process holds the lock; `owner` is its process id, or ""."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def clean_environ() -> dict[str, str]:
    """The environment without variables that misdirect pip."""
    environ = {key: value for key, value in os.environ.items() if key not in DROPPED}
    return {**environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def disk_bytes(*folders: Path) -> int:
    """Disk used by folders together; a file with several names counts once.

    Links are not followed. What vanishes meanwhile, as in an installation, is left out.
    """
    counted: set[tuple[int, int]] = set()
    total = 0
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                try:
                    status = os.lstat(os.path.join(root, name))  # noqa: PTH118
                except FileNotFoundError:
                    continue
                if status.st_nlink > 1:
                    if (status.st_dev, status.st_ino) in counted:
                        continue
                    counted.add((status.st_dev, status.st_ino))
                total += status.st_blocks * 512
    return total


def marker_of(folder: Path) -> Path:
    """The file beside an environment that marks it as incomplete."""
    return folder.with_name(folder.name + ".incomplete")


@contextmanager
def under_construction(folder: Path) -> Iterator[None]:
    """Mark a folder as incomplete until the block succeeds; remove it otherwise.

    An environment cannot be moved, so it is made in place. After a kill or a power cut
    `sweep` finds the mark.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker_of(folder).touch()
    try:
        yield
    except BaseException:
        remove(folder)
        raise
    marker_of(folder).unlink()


def remove(folder: Path) -> None:
    """Delete an environment; `sweep` finishes an interrupted deletion.

    Another process may sweep it at the same time.
    """
    marker_of(folder).touch()
    shutil.rmtree(folder, ignore_errors=True)
    # What is left of it, such as another user's files, is no environment.
    if not folder.exists():
        marker_of(folder).unlink(missing_ok=True)


def sweep(parent: Path) -> None:
    """Remove incomplete environments; the caller holds the lock."""
    for marker in parent.glob("*.incomplete"):
        remove(marker.with_suffix(""))


def create(folder: Path, *, pip: bool = True) -> None:
    """Make an empty environment for this interpreter.

    Raises InstallError when the venv module cannot.
    """
    options = ["--clear"] if pip else ["--clear", "--without-pip"]
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", "venv", *options, str(folder)]),
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        pass_fds=_lock_fds,
    )
    if done.returncode:
        raise InstallError(f"python -m venv failed: {done.stdout.strip()[-800:]}")


def dying_with_us(command: list[str]) -> list[str]:
    """The command wrapped so that it is killed with this process (Linux only)."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", DIES_WITH_US, str(os.getpid()), *command]


def pip_settings() -> dict[str, str]:
    """Options of `pip config list`: name -> the value that has precedence.

    Without pip in this environment, only those of PIP_* variables.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(
        command, env=clean_environ(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {
            name[4:].lower().replace("_", "-"): value
            for name, value in os.environ.items()
            if name.startswith("PIP_") and value
        }
    return parse_settings(done.stdout)


def parse_settings(text: str) -> dict[str, str]:
    """Lines such as `global.find-links='/wheels'`; the environment beats `install`,
    `install` beats `global`.
    """
    order = ("global", "install", ":env:")
    rows = re.findall(r"^(global|install|:env:)\.([a-z-]+)=(.*)$", text, re.MULTILINE)
    rows.sort(key=lambda row: order.index(row[0]))
    return {option: str(ast.literal_eval(value)) for _, option, value in rows}


def may_ask_indexes() -> bool:
    """Whether pip's settings leave the network to it."""
    asked = pip_settings().get("no-index", "")
    return asked.lower() in ("", "0", "false", "no", "off")


def pip_runner() -> Path | None:
    """The script by which this environment's pip serves another; None without one.

    pip starts it for `--python` (pip 22.2 and newer), in a process that would outlive
    a killed pip.
    """
    found = find_spec("pip")
    if not (found and found.origin):
        return None
    script = Path(found.origin).with_name("__pip-runner__.py")
    return script if script.is_file() else None


def pip_install(
    folder: Path,
    arguments: list[str],
    progress: Progress,
    limit_s: float = 3600,
    *,
    wheels_only: bool = True,
    scratch: Path | None = None,
    runner: Path | None = None,
) -> None:
    """Run `pip install` in an environment, by its own pip or by `pip_runner`'s.

    The configured indexes and find-links count. `scratch`: where it unpacks what it
    downloads. Raises InstallError on failure or when `limit_s` seconds have passed.
    """
    pip = [str(runner)] if runner else ["-m", "pip"]
    command = [str(python_of(folder)), *pip, "install", "--progress-bar=off"]
    command += ["--no-compile"] + ["--only-binary=:all:"] * wheels_only
    extra = {"TMPDIR": str(scratch)} if scratch else {}
    run_pip([*command, *arguments], extra, progress, limit_s)


def run_pip(
    command: list[str], extra: dict[str, str], progress: Progress, limit_s: float
) -> None:
    """Run pip and report its large downloads. Raises InstallError."""
    with subprocess.Popen(
        dying_with_us(command),
        env={**clean_environ(), **extra},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=_lock_fds,
    ) as process:
        timer = Timer(limit_s, process.kill)
        timer.start()
        try:
            last = list(show(process.stdout or [], progress))
            returncode = process.wait()
        finally:
            timed_out = not timer.is_alive()
            timer.cancel()
            process.kill()
    if timed_out:
        raise InstallError(f"pip did not finish within {limit_s:.0f} s")
    if returncode:
        reason = unreachable(last) + (errors_of(last) or last[-6:])
        raise InstallError("\n".join(reason) or f"pip ended with {returncode}")


def is_error(line: str) -> bool:
    return line.upper().startswith("ERROR")


def errors_of(lines: list[str]) -> list[str]:
    """All from pip's first error on: what it is about stands on the lines below.

    Without credentials in addresses; of much, the beginning and the end.
    """
    first = next((at for at, line in enumerate(lines) if is_error(line)), len(lines))
    said = [
        CREDENTIALS.sub("", line)
        for line in lines[first:]
        if not line.startswith(("WARNING", "[notice]"))
    ]
    if len(said) <= MOST_LINES:
        return said
    half = MOST_LINES // 2
    return [*said[:half], f"... {len(said) - 2 * half} lines more ...", *said[-half:]]


def unreachable(lines: list[str]) -> list[str]:
    """That pip got no answer, which it says in warnings before "from versions: none".

    Hosts only: the address of an index may have a password in it.
    """
    hosts = [NO_ANSWER.search(line) for line in lines if "connection broken" in line]
    names = sorted({found[1] if found else "its index" for found in hosts})
    return [f"pip could not connect to {name}" for name in names]


def show(lines: Iterator[str] | list[str], progress: Progress) -> Iterator[str]:
    """Report large downloads; yields all other lines."""
    for line in lines:
        text = line.strip()
        if LARGE.fullmatch(text):
            progress("  " + " ".join(name_only(word) for word in text.split()))
        elif text:
            yield text


def name_only(word: str) -> str:
    """A file's name without the address it comes from."""
    return word.rsplit("/", 1)[-1]


def compile_all(folder: Path) -> None:
    """Compile bytecode, which makes every start of the build a second faster."""
    command = [str(python_of(folder)), "-m", "compileall", "-q", "-j", "0"]
    subprocess.run(
        dying_with_us([*command, str(folder)]),
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        pass_fds=_lock_fds,
    )


@contextmanager
def timed(progress: Progress, what: str) -> Iterator[None]:
    """Report the start of a step and, if it succeeds, its duration."""
    progress(f"{what} ...")
    begin = time.monotonic()
    yield
    progress(f"{what}: done in {time.monotonic() - begin:.0f} s")


def owner_of(path: Path) -> str | None:
    """The process id of a lock's holder, "" if unknown; None where it is free."""
    if not path.exists():
        return None
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return file.read().strip()
    return None


# Descriptors of the locks held here. Installers inherit them, so that nobody else
# installs while one of them lives, even if this process is killed.
_lock_fds: list[int] = []


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file that contains the holder's process id.

    The kernel frees it once this process and the installers it started have ended.
    Raises LockHeld.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise LockHeld(file.read().strip()) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        _lock_fds.append(file.fileno())
        try:
            yield
        finally:
            _lock_fds.remove(file.fileno())
            file.truncate(0)
