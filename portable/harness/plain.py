"""Checks as plain children of this process, without a sandbox (tier E)."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .process import (
    Ended,
    Process,
    child_command,
    exit_status,
    kill_marked,
    private_mib,
    session_members,
)
from .spec import CheckSpec, Report, Start
from .values import PROBE_TIMEOUT_S
from .watch import watch


def supervise(
    command: Sequence[str],
    spec: CheckSpec,
    *,
    cwd: str,
    env: Mapping[str, str],
    on_line: Optional[Callable[[str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
) -> Report:
    """Run one child to its end, or to its limit, and report what was seen of it.

    The child has a session of its own; whatever is left of it is killed. Never raises
    for what the child does; `build_missing` where the interpreter cannot be started.
    """
    try:
        process = PlainProcess(command, cwd, env)
    except OSError as error:
        return Report(failure="build_missing", log_text="[harness] %s\n" % error)
    return watch(process, spec, on_line=on_line, cancelled=cancelled)


class PlainProcess:
    """A Process that is a child of this one, with a session of its own."""

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
        assert self.process.stdout is not None and self.process.stderr is not None
        self.stdout_fd = self.process.stdout.fileno()
        self.stderr_fd = self.process.stderr.fileno()
        self.end_fd = _pidfd(self.process.pid)
        self.ended: Optional[Ended] = None

    def write_nonce(self, nonce: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(nonce.encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def poll(self) -> Optional[Ended]:
        return self._wait(os.WNOHANG)

    def _wait(self, options: int) -> Optional[Ended]:
        if self.ended is None:
            pid, status, usage = os.wait4(self.process.pid, options)
            if pid:
                code = exit_status(status)
                self.process.returncode = code
                cpu_s = usage.ru_utime + usage.ru_stime
                self.ended = Ended(code, cpu_s, usage.ru_maxrss // 1024)
        return self.ended

    def kill(self) -> None:
        """End every process of the session that the child began."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def memory_mib(self) -> float:
        return private_mib(session_members(self.process.pid))

    def limit_hit(self) -> Optional[str]:
        return None  # No layer here counts what it refuses.

    def killed_by(self) -> str:
        return ""  # It could have killed itself.

    def close(self) -> None:
        self.kill()
        self._wait(0)
        kill_marked(self.token)
        if self.end_fd >= 0:
            os.close(self.end_fd)
        os.close(self.channel_fd)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
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
    scratch: str, extra: Mapping[str, str], compile_cache: str = ""
) -> Dict[str, str]:
    """The environment of a child; the folders that it names are made.

    `compile_cache`: where Inductor keeps what it built, if not below `scratch`. The
    checks of one run share it: most of a compilation is the same header each time.
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
    harness: str = "",
    on_line: Optional[Callable[[str, str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
    fork: Optional[Fork] = None,
) -> Start:
    """A Start without a sandbox: a child of this machine under `python` (tier E).

    `repro`: path of the source that `drive` gets. `on_line(check, stream, text)`. The
    child dies with the thread that called it. `fork`: `Forks.start`, asked first.
    """
    python = located(python)
    harness = os.path.abspath(harness or os.path.dirname(__file__))
    repro = repro if repro == "-" else os.path.abspath(repro)
    # Removed when the Start that holds it is no longer used.
    shared = tempfile.TemporaryDirectory(prefix="doesitnan-cache-")

    def start(spec: CheckSpec) -> Report:
        def tell(stream: str, text: str) -> None:
            if on_line:
                on_line(spec.name, stream, text)

        scratch = tempfile.mkdtemp(prefix="doesitnan-")
        watched: Any = {"on_line": tell, "cancelled": cancelled}
        try:
            env = plain_environment(scratch, spec.environment, shared.name)
            forked = fork(repro, spec, scratch, env) if fork else None
            if forked:
                return watch(forked, spec, served="warm", **watched)
            command = child_command(python, harness, repro, spec)
            return supervise(command, spec, cwd=scratch, env=env, **watched)
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
