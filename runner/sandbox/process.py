"""The trusted side of a sandboxed check: a Process for `harness.watch`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from portable import harness
from runner.sandbox import box
from runner.sandbox.cgroups import Group
from runner.sandbox.jail import kernel
from runner.sandbox.policy import PROCESSES

PACKET_BYTES = 65536


class Pipes:
    """The pipes of a check. `readers`: standard output, error and report channel."""

    def __init__(self) -> None:
        (self.nonce_in, self.nonce_out), *outputs = [os.pipe() for _ in range(4)]
        self.readers = [reader for reader, _ in outputs]
        self.writers = [writer for _, writer in outputs]

    @property
    def child_ends(self) -> list[int]:
        return [self.nonce_in, *self.writers]


class BoxProcess:
    """One check behind an init that reports on `control` (see jail/init.py).

    `outer`: the process started here, if any. `release`: sends the check its nonce.
    `token`: mark in the environment of its processes, where no namespace keeps track of
    them. `sealed`: whether the check cannot kill itself or its init (policy.seals).
    """

    def __init__(
        self,
        control: socket.socket,
        readers: Sequence[int],
        release: Callable[[str], None],
        *,
        outer: subprocess.Popen[bytes] | None = None,
        group: Group | None = None,
        token: str = "",
        sealed: bool = False,
    ) -> None:
        self.control = control
        self.control.setblocking(False)
        self.stdout_fd, self.stderr_fd, self.channel_fd = readers
        self.end_fd = control.fileno()
        self.release = release
        self.outer = outer
        self.group = group
        self.token = token
        self.sealed = sealed
        self.begun = False  # its init watches over it
        self.trouble = ""  # why nothing was run
        self.ended: harness.Ended | None = None
        self.killed_at: float | None = None
        self.too_many = False

    def write_nonce(self, nonce: str) -> None:
        self.release(nonce)

    def poll(self) -> harness.Ended | None:
        while self.ended is None:
            try:
                packet = self.control.recv(PACKET_BYTES)
            except BlockingIOError:
                self._continue_init()
                self._kill_if_late()
                return None
            except OSError:
                packet = b""
            self._handle(packet)
        return self.ended

    def _handle(self, packet: bytes) -> None:
        message: dict[str, Any] = json.loads(packet) if packet else {"status": None}
        if "status" not in message:
            self.begun = True
            return
        self.trouble = message.get("error") or ""
        if message["status"] is None or self.trouble:
            self.ended = harness.Ended(None, refused=self.trouble)
            return
        self.ended = harness.Ended(
            harness.exit_status(message["status"]),
            message["utime"] + message["stime"],
            message["maxrss_kib"] // 1024,
        )

    def kill(self) -> None:
        """Tell init to kill everything; it still reports the resources used."""
        if self.killed_at is None:
            self.killed_at = time.monotonic()
            with contextlib.suppress(OSError):
                self.control.send(b"kill")

    def _continue_init(self) -> None:
        """Continue init: without a namespace of its own its check can stop it."""
        if self.token and self.outer and self.outer.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.outer.pid, signal.SIGCONT)

    def _kill_if_late(self) -> None:
        """Kill the whole tree if init does not react to the kill order."""
        late = self.killed_at and time.monotonic() - self.killed_at > box.KILL_GRACE_S
        if late and self.outer:
            box.kill_tree(self.outer)

    def members(self) -> list[int]:
        """Pids of the check and its sandbox, in this process's namespace."""
        return sorted(kernel.descendants(self.outer.pid)) if self.outer else []

    def memory_mib(self) -> float:
        if self.group:
            return self.group.memory_mib()
        pids = self.members()
        if len(pids) > PROCESSES + len(("launcher", "waiter", "init")):
            self.too_many = True
            self.kill()
        return harness.private_mib(pids)

    def limit_hit(self) -> str | None:
        if self.too_many:
            return "limit:processes"
        return self.group.limit_hit() if self.group else None

    def killed_by(self) -> str:
        """Who killed it from outside: "oom" (for want of memory on the host), "signal".

        "" where nobody did, or where that cannot be told from what it did itself.
        """
        if self.group and self.group.oom_kills():
            return "" if self.group.was_full() else "oom"
        if self.ended is None or not self.sealed or self.killed_at is not None:
            return ""
        if self.ended.status is None:
            # Its init always tells, and nothing inside can reach it.
            return "signal" if self.begun and not self.trouble else ""
        return "signal" if self.ended.status == -signal.SIGKILL else ""

    def close(self) -> None:
        """Kill and remove everything of the check."""
        self.kill()
        deadline = time.monotonic() + box.KILL_GRACE_S
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if self.outer:
            box.reap(self.outer)
        if self.token:
            harness.kill_marked(self.token)
        self.control.close()
        for number in (self.stdout_fd, self.stderr_fd, self.channel_fd):
            os.close(number)
        if self.group:
            self.group.remove()
