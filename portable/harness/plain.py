"""Checks as plain children of this process, without a sandbox (tier E)."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from typing import Callable, Dict, Mapping, Optional, Sequence

from .process import (
    Ended,
    Process,
    SessionProcess,
    child_command,
    exit_status,
    kill_marked,
)
from .spec import CheckSpec, Report, Start
from .values import PROBE_TIMEOUT_S
from .watch import watch


class PlainProcess(SessionProcess):
    """A Process that is a child of this one; whatever is left of it is killed."""

    def __init__(
        self, command: Sequence[str], cwd: str, env: Mapping[str, str]
    ) -> None:
        """Start `command`, with `--fd N` for its channel. Raises OSError."""
        self.token = secrets.token_hex(16)
        self.channel_fd, sender = os.pipe()
        try:
            self.process = subprocess.Popen(
                [*command, "--fd", str(sender)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env, DOESITNAN_CHILD=self.token),
                pass_fds=(sender,),
                start_new_session=True,
            )
        except OSError:
            os.close(self.channel_fd)
            raise
        finally:
            os.close(sender)
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self.pipes = [pipe for pipe in pipes if pipe is not None]
        self.nonce_fd, self.stdout_fd, self.stderr_fd = (p.fileno() for p in self.pipes)
        self.pid = self.process.pid
        self.end_fd = _pidfd(self.pid)

    def poll(self) -> Optional[Ended]:
        return self._wait(os.WNOHANG)

    def _wait(self, options: int) -> Optional[Ended]:
        if self.ended is None:
            pid, status, usage = os.wait4(self.pid, options)
            if pid:
                code = exit_status(status)
                self.process.returncode = code
                cpu_s = usage.ru_utime + usage.ru_stime
                self.ended = Ended(code, cpu_s, usage.ru_maxrss // 1024)
        return self.ended

    def close(self) -> None:
        self.kill()
        self._wait(0)
        kill_marked(self.token)
        if self.end_fd >= 0:
            os.close(self.end_fd)
        os.close(self.channel_fd)
        for pipe in self.pipes:
            pipe.close()


def _pidfd(pid: int) -> int:
    """A descriptor that turns readable when `pid` ends; -1 where there is none."""
    try:
        return os.pidfd_open(pid)  # Linux 5.3, Python 3.9
    except (AttributeError, OSError):
        return -1


# What a child may inherit: where libraries and devices are, never a secret.
INHERITED_ENV = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "CC",
    "CXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
)


def plain_environment(
    scratch: str, extra: Mapping[str, str], compile_cache: str
) -> Dict[str, str]:
    """The environment of a child; the folders that it names are made.

    `compile_cache`: where Inductor keeps what it built. The checks of one run share it:
    most of a compilation is the same header each time.
    """
    env = child_environment(scratch, compile_cache)
    # Never a folder that a record names.
    for name in ("TMPDIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        os.makedirs(env[name], exist_ok=True)
    env.update(extra)
    return env


# What every child has, cold or warm.
CHILD_ENV = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    # Threads that wait do not spin: on a busy machine a check with two of them took
    # ten to a hundred times as long.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def child_environment(scratch: str, compile_cache: str = "") -> Dict[str, str]:
    """An allow-list of this process's environment, and folders below `scratch`."""
    env = {name: os.environ[name] for name in INHERITED_ENV if name in os.environ}
    # HOME moves into the scratch folder; a torch of `pip install --user` must not.
    home = os.path.expanduser("~")
    user_base = os.environ.get("PYTHONUSERBASE") or os.path.join(home, ".local")
    env.update(
        CHILD_ENV,
        PYTHONUSERBASE=user_base,
        HOME=scratch,
        TMPDIR=os.path.join(scratch, "tmp"),
        XDG_CACHE_HOME=os.path.join(scratch, "cache"),
        TORCHINDUCTOR_CACHE_DIR=compile_cache or os.path.join(scratch, "inductor"),
    )
    return env


def located(python: str) -> str:
    """An interpreter as the shell means it, wherever a check then starts it from."""
    return os.path.abspath(python) if os.sep in python else python


Fork = Callable[[str, CheckSpec, str, Mapping[str, str]], Optional[Process]]


def start_plain(
    python: str,
    repro: str,
    *,
    cancelled: Optional[Callable[[], bool]] = None,
    fork: Optional[Fork] = None,
) -> Start:
    """A Start without a sandbox: a child of this machine under `python` (tier E).

    `repro`: path of the source that `drive` gets. The child dies with the thread that
    called it. `fork`: `Forks.start`, asked first. Its Report says `build_missing` where
    the interpreter cannot be started.
    """
    python = located(python)
    harness = os.path.dirname(os.path.abspath(__file__))
    repro = repro if repro == "-" else os.path.abspath(repro)
    # Removed when the Start that holds it is no longer used.
    shared = tempfile.TemporaryDirectory(prefix="doesitnan-cache-")

    def start(spec: CheckSpec) -> Report:
        scratch = tempfile.mkdtemp(prefix="doesitnan-")
        try:
            env = plain_environment(scratch, spec.environment, shared.name)
            forked = fork(repro, spec, scratch, env) if fork else None
            if forked:
                return watch(forked, spec, served="warm", cancelled=cancelled)
            command = child_command(python, harness, repro, spec)
            try:
                process = PlainProcess(command, scratch, env)
            except OSError as error:
                text = "[harness] %s\n" % error
                return Report(failure="build_missing", log_text=text)
            return watch(process, spec, cancelled=cancelled)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    return start


def probe(python: str, timeout_s: float = PROBE_TIMEOUT_S, device: str = "") -> Report:
    """What torch an interpreter has: `hello` with identity, devices and facts.

    `device`: of which kind devices are looked for, else GPUs.
    """
    spec = CheckSpec("requirements", timeout_s=timeout_s, device=device)
    report = start_plain(python, "-")(spec)
    if not report.failure and report.messages[0]["t"] == "raised":
        report.failure = "import"
    return report
