"""Warm parents: a process for each build, and spare forks of it that wait for a check.

Standard library only; used by `runner.pool.server`, whose loop calls back into it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.pool.boxes import Key, start_box
from runner.pool.memory import pss_kib
from runner.sandbox import box, policy
from runner.sandbox.jail import kernel, wire
from runner.sandbox.tiers import Layers

START_S = 60.0
# Inductor compiles and loads a program for each vector ISA that it probes.
COMPILER_START_S = 180.0
# A parent is replaced after this many children, which all share its address layout:
# by one that starts meanwhile, and in any case after twice as many.
MAX_CHILDREN = 500
# Two: a run asks for the next check while the one before is under way.
SPARES = 2
MAX_SPARES = 32
SPARE_FAILURES = 3
STDERR_TAIL_BYTES = 4096
CREDENTIALS = struct.Struct("3i")


@dataclass
class Spare:
    """A child that was ordered; ready for a request once `pidfd` is known."""

    control: socket.socket
    request: socket.socket
    pidfd: int = -1

    @property
    def ready(self) -> bool:
        return self.pidfd >= 0

    def close(self) -> None:
        """Close `control`, upon which the child's init ends it."""
        self.control.close()
        self.request.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
        self.pidfd = -1


class Parent:
    """One warm parent, from its start to its end.

    `deliver(client, spare)` hands a child over and returns whether the client took it;
    `refuse(client, reason)` makes the client start its check cold.
    """

    def __init__(
        self,
        key: Key,
        selector: selectors.BaseSelector,
        deliver: Callable[[Any, Spare], bool],
        refuse: Callable[[Any, str], None],
    ) -> None:
        self.key = key
        self.selector = selector
        self.deliver = deliver
        self.refuse = refuse
        self.waiting: deque[Any] = deque()
        self.spares: list[Spare] = []
        self.state = "starting"
        self.reason = ""
        self.killed = False
        self.torch = ""
        self.files: dict[str, int] = {}
        self.served = self.running = self.broken = 0
        self.pss_mib = 0.0
        self.used_at = time.monotonic()
        self.retired = False
        self.start(bare=False)

    # --- its process ---------------------------------------------------------
    def start(self, *, bare: bool) -> None:
        """Raises NotStarted where it cannot be sandboxed."""
        self.bare = bare
        self.began = time.monotonic()
        self.stderr_tail = b""
        self.interpreter_time = modified(self.key.python)
        self.caches_folder = inode(self.key.caches)
        self.sock, their_sock = wire.pair()
        self.stderr, their_stderr = os.pipe()
        os.set_blocking(self.stderr, False)
        try:
            self.outer = start_box(
                self.key, their_sock.fileno(), their_stderr, bare=bare
            )
        except box.NotStarted:
            self.sock.close()
            os.close(self.stderr)
            raise
        finally:
            their_sock.close()
            os.close(their_stderr)
        self.watch(self.sock, self.on_message)
        self.watch(self.stderr, self.on_stderr)

    def watch(self, what: Any, callback: Callable[[], None]) -> None:
        self.selector.register(what, selectors.EVENT_READ, callback)

    def end_process(self) -> None:
        """Kill the process and all its spares."""
        for spare in self.spares:
            self.selector.unregister(spare.control)
            spare.close()
        self.spares.clear()
        with contextlib.suppress(KeyError):
            self.selector.unregister(self.stderr)
        self.selector.unregister(self.sock)
        self.sock.close()
        os.close(self.stderr)
        self.outer.end()

    def end(self, reason: str) -> None:
        """End this parent, once; waiting clients start cold."""
        if self.state != "ended":
            self.end_process()
            self.give_up(reason)

    def give_up(self, reason: str) -> None:
        self.state, self.reason = "ended", reason
        for client in self.waiting:
            self.refuse(client, reason)
        self.waiting.clear()

    # --- messages from it ----------------------------------------------------
    def on_message(self) -> None:
        """Handle its one message, or its end."""
        try:
            message = wire.receive(self.sock)
        except (OSError, ValueError):
            message = None
        if message and "ready" in message[0]:
            ready = message[0]["ready"]
            self.state, self.torch = "ready", str(ready["torch"])
            self.files = dict(ready["files"])
            self.supply()
        elif message and not self.bare:
            # The failure may come from a module that is preloaded beside torch.
            self.end_process()
            self.restart_bare(str(message[0].get("failed")))
        elif message:
            self.end(str(message[0].get("failed")))
        else:
            self.end(self.final_packet())

    def restart_bare(self, reason: str) -> None:
        try:
            self.start(bare=True)
        except box.NotStarted as error:
            self.give_up(f"{reason}; {error}")

    def final_packet(self) -> str:
        self.on_stderr()
        self.killed = self.outer.was_killed()
        lines = self.stderr_tail.decode(errors="replace").strip().splitlines()
        if self.killed:
            return "the warm parent was killed from outside"
        return "the warm parent died" + (f": {lines[-1][:300]}" if lines else "")

    def on_stderr(self) -> None:
        """Read its standard error, whose end says why it died."""
        try:
            data = os.read(self.stderr, 65536)
        except BlockingIOError:
            return
        self.stderr_tail = (self.stderr_tail + data)[-STDERR_TAIL_BYTES:]
        if not data:
            with contextlib.suppress(KeyError):
                self.selector.unregister(self.stderr)

    # --- its children --------------------------------------------------------
    def supply(self) -> None:
        """Order a child for each waiting client, and at least one spare."""
        target = max(0 if self.retired else SPARES, len(self.waiting))
        while self.state == "ready" and len(self.spares) < min(target, MAX_SPARES):
            self.order()

    def order(self) -> None:
        control, their_control = wire.pair()
        request, their_request = socket.socketpair()
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        spare = Spare(control, request)
        self.spares.append(spare)
        self.watch(control, lambda: self.on_spare_message(spare))
        ends = [their_control.fileno(), their_request.fileno()]
        layers = Layers(namespaces=self.key.namespaces)
        fresh = policy.parent_policy(layers, [])["fresh"] if layers.namespaces else None
        # Its death shows at `self.sock` and at `control`.
        with contextlib.suppress(OSError):
            wire.send(self.sock, {"fork": {"fresh": fresh}}, ends)
        their_control.close()
        their_request.close()

    def on_spare_message(self, spare: Spare) -> None:
        """A spare is ready, or it ended unused."""
        message, pid = receive_with_pid(spare.control)
        if message.get("ready") and not spare.ready and pid > 0:
            try:
                spare.pidfd = os.pidfd_open(pid)
            except OSError as error:
                message = {"error": f"pidfd_open: {error.strerror}"}
        if spare.ready and message.get("ready"):
            self.broken = 0
            self.hand_over()
            return
        was_ready = spare.ready
        self.drop(spare)
        self.broken += not was_ready
        if self.broken >= SPARE_FAILURES:
            self.end(str(message.get("error") or "its children die at once"))
        else:
            self.supply()

    def drop(self, spare: Spare) -> None:
        self.selector.unregister(spare.control)
        self.spares.remove(spare)
        spare.close()

    def hand_over(self) -> None:
        """Deliver ready children to waiting clients, then order new ones."""
        ready = [spare for spare in self.spares if spare.ready]
        while ready and self.waiting:
            client, spare = self.waiting.popleft(), ready[-1]
            if self.deliver(client, spare):
                ready.pop()
                self.drop(spare)
                self.served += 1
                self.running += 1
                self.used_at = time.monotonic()
        self.supply()

    def wait(self, client: Any) -> None:
        """Queue a client for the next ready child."""
        self.waiting.append(client)
        self.used_at = time.monotonic()
        if self.state == "ready":
            self.hand_over()

    # --- its upkeep ----------------------------------------------------------
    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    @property
    def worn(self) -> bool:
        """Whether another one is to start, beside which it serves on."""
        return self.served >= MAX_CHILDREN

    def stale_reason(self) -> str:
        """Why it must be replaced; "" if it need not be."""
        if self.served >= 2 * MAX_CHILDREN:
            return f"{self.served} children"
        if self.interpreter_time != modified(self.key.python):
            return "the interpreter changed"
        if any(modified(path) != stamp for path, stamp in self.files.items()):
            return "its torch changed"
        if self.caches_folder != inode(self.key.caches):
            return "the folder of its compile caches is another one"
        return ""

    def overdue(self) -> bool:
        most_s = COMPILER_START_S if self.key.compiler else START_S
        return self.state == "starting" and time.monotonic() - self.began > most_s

    def measure(self) -> float:
        """Proportional set size in MiB, of it and its spares."""
        if self.state == "ready" and not self.running:
            pids = {self.outer.process.pid, *kernel.descendants(self.outer.process.pid)}
            self.pss_mib = sum(map(pss_kib, pids)) / 1024
        return self.pss_mib

    def describe(self) -> dict[str, Any]:
        return {
            "interpreter": self.key.python,
            "compiler": self.key.compiler,
            "namespaces": self.key.namespaces,
            "torch": self.torch,
            "state": "retired" if self.retired else self.state,
            "preloaded": not self.bare,
            "reason": self.reason,
            "pid": self.outer.process.pid,
            "memory_mib": round(self.measure(), 1),
            "served": self.served,
            "running": self.running,
            "spares": sum(spare.ready for spare in self.spares),
            "age_s": round(time.monotonic() - self.began, 1),
        }


def modified(path: str) -> int | None:
    """Modification time in ns; None where there is no such file."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # follows links, takes text
    except OSError:
        return None


def inode(path: str) -> int | None:
    """Which folder this is; None where there is none."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116  # "" is no path, and no error
    except OSError:
        return None


def receive_with_pid(control: socket.socket) -> tuple[dict[str, Any], int]:
    """A message of an init, and its pid in this namespace; {} at the end."""
    try:
        data, ancillary, _, _ = control.recvmsg(4096, 256, socket.MSG_DONTWAIT)
        message = wire.parse(data)
    except (OSError, ValueError):
        return {}, 0
    pid = 0
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid = CREDENTIALS.unpack(content[: CREDENTIALS.size])[0]
    return message, pid
