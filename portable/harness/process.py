"""A started check as its watcher sees it, and what /proc shows of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from typing import Any, Iterator, List, NamedTuple, Optional, Protocol, Sequence

from .channel import ChannelReader
from .spec import CheckSpec
from .values import dumps

_SIGNAL_REASONS = {"SIGXCPU": "timeout", "SIGXFSZ": "limit:disk"}


def process_failure(channel: ChannelReader, status: Optional[int]) -> Optional[str]:
    """Why a process that ended by itself gave no report; `status` as Popen's.

    None as status: its watcher died before it could report.
    """
    if status is None:
        return channel.failure or "lost"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = "SIG%d" % -status
        return _SIGNAL_REASONS.get(name, "crash:" + name)
    if channel.failure:
        return channel.failure
    return None if channel.ended and status == 0 else "no_report"


def child_command(python: str, harness: str, repro: str, spec: CheckSpec) -> List[str]:
    """The command of one check; who starts it adds the descriptor of the channel.

    `repro` is "-" for a bare probe of the interpreter.
    """
    child = ["--child", repro, spec.name, "--trial", str(spec.trial)]
    if spec.parameters:
        child += ["--parameters", dumps(spec.parameters)]
    if spec.device:
        child += ["--device", spec.device]
    return [python, harness, *child, "--cpu", str(processor_limit_s(spec))]


def order_of(spec: CheckSpec) -> List[Any]:
    """What `become_check` of a fork is told: name, trial, seconds and values."""
    return [spec.name, spec.trial, processor_limit_s(spec), spec.parameters]


def processor_limit_s(spec: CheckSpec) -> int:
    """Processor time that no check within its time-out reaches; the last resort."""
    return int(spec.timeout_s * (os.cpu_count() or 1)) + 10


class Ended(NamedTuple):
    """How the process of a check ended. `status` as Popen's; None: nobody saw it.

    `refused`: why nothing of the check was started at all; "" = it was.
    """

    status: Optional[int]
    cpu_s: float = 0.0
    peak_mib: int = 0
    refused: str = ""


class Process(Protocol):
    """One started check, as `watch` needs it, wherever it runs.

    The descriptors are the reading ends of its pipes. `end_fd` turns readable once
    `poll` may answer; -1: poll it at intervals.
    """

    stdout_fd: int
    stderr_fd: int
    channel_fd: int
    end_fd: int

    def write_nonce(self, nonce: str) -> None:
        """Give the check its nonce, which also sets it going."""

    def poll(self) -> Optional[Ended]:
        """How it ended; None while it runs."""

    def kill(self) -> None:
        """End everything the check began; may be called twice."""

    def memory_mib(self) -> float:
        """What it uses now, without what it shares with others."""

    def limit_hit(self) -> Optional[str]:
        """The limit that the kernel enforced on it: limit:memory, limit:processes."""

    def killed_by(self) -> str:
        """Who killed it from outside, once it has ended: see Report."""

    def close(self) -> None:
        """End it without a trace: no process, no descriptor is left."""


class SessionProcess:
    """Of a Process that leads a session of its own, what any has that nothing holds."""

    pid: int
    nonce_fd: int
    ended: Optional[Ended] = None

    def write_nonce(self, nonce: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.nonce_fd, nonce.encode() + b"\n")

    def kill(self) -> None:
        """End every process of the session that the check began."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def memory_mib(self) -> float:
        return private_mib(session_members(self.pid))

    def limit_hit(self) -> Optional[str]:
        return None  # No layer here counts what it refuses.

    def killed_by(self) -> str:
        return ""  # It could have killed itself.


def exit_status(status: int) -> int:
    """A wait status in the form of Popen.returncode."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _processes() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def session_members(session: int) -> List[int]:
    return [pid for pid in _processes() if _stat(pid, 3) == session]


def children_of(parent: int) -> List[int]:
    return [pid for pid in _processes() if _stat(pid, 1) == parent]


def private_mib(members: Sequence[int]) -> float:
    """Memory of these processes in MiB without files and without what they share.

    0 where there is no /proc.
    """
    resident = sum(map(_resident_kib, members))
    if resident < 64 * 1024:
        return resident / 1024
    # Forked workers share most of it: count each page once. Dearer, so second.
    return sum(map(_shared_out_kib, members)) / 1024


def _resident_kib(pid: int) -> int:
    return _kib("/proc/%d/status" % pid, b"RssAnon", b"RssShmem")


def _shared_out_kib(pid: int) -> int:
    """Its part of what it shares; all of it where that may not be read.

    In this order: one that ends meanwhile has lost its memory for the second look, too.
    """
    part = _kib("/proc/%d/smaps_rollup" % pid, b"Pss_Anon", b"Pss_Shmem")
    return part or _resident_kib(pid)


def _stat(pid: int, field: int) -> int:
    # pid (comm) state ppid pgrp session …; comm may hold anything.
    fields = read_bytes("/proc/%d/stat" % pid).rpartition(b") ")[2].split()
    return int(fields[field]) if len(fields) > field else -1


def _kib(path: str, *names: bytes) -> int:
    pattern = rb"^(?:%s):\s+(\d+) kB" % b"|".join(names)
    return sum(map(int, re.findall(pattern, read_bytes(path), re.MULTILINE)))


def kill_marked(token: str) -> None:
    """Kill the processes that carry this mark in their environment (daemons).

    Looks again until none is left, a second at most.
    """
    mark = b"DOESITNAN_CHILD=" + token.encode()
    give_up_at = time.monotonic() + 1.0
    while time.monotonic() < give_up_at:
        # In this order: what is not within exec now shows its environment after.
        untold = [pid for pid in _processes() if _is_within_exec(pid)]
        marked = [p for p in _processes() if mark in read_bytes("/proc/%d/environ" % p)]
        for pid in marked:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not marked and not untold:
            return
        time.sleep(0.001)


def _is_within_exec(pid: int) -> bool:
    """Whether it has a new memory in which the kernel has not put its environment.

    Its parent goes on before that: up to 16 ms were seen on busy cores.
    """
    if read_bytes("/proc/%d/cmdline" % pid):
        return False
    fields = read_bytes("/proc/%d/stat" % pid).rpartition(b") ")[2].split()
    if len(fields) < 7 or fields[0] in b"ZX":
        return False
    return not int(fields[6]) & 0x00200000  # PF_KTHREAD: never has one
