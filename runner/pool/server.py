"""The pool: keeps a warm parent for each torch build and delivers forks of it.

    python -m runner.pool --socket PATH [--memory-mib N]    serve until told to stop
    python -m runner.pool --socket PATH --status            what it holds, as JSON

One process serves a socket: a second one ends at once, with status 0, or with --wait
takes over when the first has ended. The pool sees neither the source of a check nor its
report: a client gets a waiting child and talks to it directly.

Standard library only. One thread, which blocks in nothing but the selector.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from runner.pool import client as pool_client
from runner.pool.boxes import Key, key_of
from runner.pool.client import NotWarm
from runner.pool.memory import free_memory_mib
from runner.pool.parents import Parent, Spare, modified
from runner.sandbox.box import NotStarted
from runner.sandbox.jail import kernel, wire

DEFAULT_MEMORY_MIB = 2048
TICK_S = 1.0
MEASURE_S = 10.0
# After so long without a check a parent ends, but not that of the build warmed last.
IDLE_S = 900.0
# A build whose parent failed is tried again after this long.
UNFIT_S = 600.0
MAX_CLIENTS = 512
# Free memory without which no parent is started before it is needed: a torch of the
# CPU takes some 300 MiB.
WARM_MIB = 512
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class AlreadyRunning(Exception):
    """Another pool serves this socket."""


@dataclass(eq=False)
class Client:
    """A connection, which requests one child and stays open while it uses it."""

    sock: socket.socket
    parent: Parent | None = None
    waits: bool = False


class Pool:
    """The server. `serve` runs until a stop signal and leaves nothing behind."""

    def __init__(self, path: str, memory_mib: int, *, waits: bool = False) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  # keeps symbolic links
        self.memory_mib = memory_mib
        self.waits = waits
        self.selector = selectors.DefaultSelector()
        self.parents: dict[Key, Parent] = {}
        self.retired: list[Parent] = []
        # They start while a worn parent still serves.
        self.successors: dict[Key, Parent] = {}
        self.unfit: dict[Key, tuple[str, float]] = {}
        self.kills: collections.Counter[Key] = collections.Counter()
        # Why the last parent for a key is none; gone once one is ready.
        self.lacking: dict[Key, str] = {}
        # The default build's, which a worker names: its next click is to be warm.
        self.to_keep: Key | None = None
        self.clients: set[Client] = set()
        self.cold: collections.Counter[str] = collections.Counter()
        self.served = 0
        self.began = self.measured_at = time.monotonic()
        self.stopping = self.outdated = False

    # --- the server ----------------------------------------------------------
    def serve(self) -> None:
        """Raises AlreadyRunning, OSError where the socket cannot be made."""
        with self.listening() as listener, self.stoppable():
            self.selector.register(listener, selectors.EVENT_READ, self.accept)
            self.listener = listener
            try:
                while not self.stopping:
                    self.poll_once()
            finally:
                self.stop()

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[None]:
        """A signal ends the loop, also while it waits."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 64))

        def stop(number: int, frame: FrameType | None) -> None:
            self.stopping = True

        for number in STOPS:
            signal.signal(number, stop)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            wire.close_all([wake, waker])

    def poll_once(self) -> None:
        for key, _ in self.selector.select(TICK_S):
            # An earlier callback of this round may have closed it.
            if self.selector.get_map().get(key.fd) is key:
                key.data()
        self.tick()

    @contextlib.contextmanager
    def listening(self) -> Iterator[socket.socket]:
        """The socket, for this user only. Raises AlreadyRunning."""
        with self.locked(), self.bound() as listener:
            listener.listen(MAX_CLIENTS)
            listener.setblocking(False)
            yield listener

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """The lock on the socket; the kernel frees it when this process ends."""
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
        lock = os.open(self.path + ".lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if self.waits else fcntl.LOCK_NB))
        except BlockingIOError as error:
            os.close(lock)
            raise AlreadyRunning(self.path) from error
        try:
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def bound(self) -> Iterator[socket.socket]:
        path = Path(self.path)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            before = os.umask(0o177)
            try:
                with pool_client.address(self.path) as name:
                    listener.bind(name)
            finally:
                os.umask(before)
            try:
                yield listener
            finally:
                path.unlink(missing_ok=True)

    def stop(self) -> None:
        for client in list(self.clients):
            self.hang_up(client)
        for parent in [*self.all_parents(), *self.retired]:
            parent.end("the pool stops")
        self.selector.close()

    def all_parents(self) -> list[Parent]:
        return [*self.parents.values(), *self.successors.values()]

    def accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        client = Client(sock)
        self.clients.add(client)
        self.selector.register(
            sock, selectors.EVENT_READ, lambda: self.on_message(client)
        )

    def hang_up(self, client: Client) -> None:
        """Close a connection; a child it has is no longer in use."""
        self.clients.discard(client)
        self.selector.unregister(client.sock)
        client.sock.close()
        if client.parent is None:
            return
        if client.waits:
            client.parent.waiting.remove(client)
        else:
            client.parent.running -= 1
            client.parent.used_at = time.monotonic()

    # --- requests ------------------------------------------------------------
    def on_message(self, client: Client) -> None:
        try:
            message = wire.receive(client.sock)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            message = None
        if message is None:
            self.hang_up(client)
            return
        request, descriptors = message
        wire.close_all(descriptors)
        if request.get("op") == "status":
            self.send(client, self.describe())
        elif request.get("op") == "cold":
            self.send(client, {"cold": self.cold_keys()})
        elif client.parent is not None:
            self.hang_up(client)  # One connection, one child.
        elif request.get("digest") != pool_client.digest():
            # After a restart it would run the version that is on disk now.
            self.outdated = pool_client.digest_of_files() != pool_client.digest()
            self.refuse(client, "the pool runs another version of this code")
        else:
            try:
                key = key_of(request)
            except ValueError as error:
                self.refuse(client, str(error))
                return
            if request.get("op") == "warm":
                self.warm(client, key)
            else:
                self.assign(client, key)

    def warm(self, client: Client, key: Key) -> None:
        self.to_keep = key
        self.start_early(key)
        self.send(client, {"warm": key in self.parents})

    def start_early(self, key: Key) -> None:
        """Start the parent for `key` before anybody needs it, where memory allows."""
        if min(free_memory_mib(), self.memory_mib) >= WARM_MIB:
            with contextlib.suppress(NotWarm):
                self.parent_for(key)

    def assign(self, client: Client, key: Key) -> None:
        """Queue a client at the parent for `key`, which is started if needed."""
        try:
            parent = self.parent_for(key)
        except NotWarm as error:
            self.refuse(client, str(error))
            return
        client.parent, client.waits = parent, True
        parent.wait(client)

    def parent_for(self, key: Key) -> Parent:
        """The parent for `key`, which is started if needed. Raises NotWarm."""
        parent = self.parents.get(key)
        if parent and parent.state == "ended":  # in this very round
            self.note_end(key, parent)
        elif parent and parent.stale_reason():
            self.retire(key)
        if parent := self.parents.get(key):
            if parent.worn:
                self.succeed(key)
            return parent
        reason, until = self.unfit.get(key, ("", 0.0))
        if time.monotonic() < until:
            raise NotWarm(reason)
        try:
            parent = Parent(key, self.selector, self.deliver, self.refuse)
        except NotStarted as error:
            self.lacking[key] = str(error)
            raise NotWarm(str(error)) from error
        self.parents[key] = parent
        return parent

    def succeed(self, key: Key) -> None:
        """Start the parent that is to replace a worn one, once, where memory allows."""
        if key not in self.successors and free_memory_mib() >= WARM_MIB:
            with contextlib.suppress(NotStarted):
                successor = Parent(key, self.selector, self.deliver, self.refuse)
                self.successors[key] = successor

    def deliver(self, client: Client, spare: Spare) -> bool:
        ends = [spare.control.fileno(), spare.request.fileno(), spare.pidfd]
        client.waits = False
        try:
            wire.send(client.sock, {"child": True}, ends)
        except OSError:
            client.parent = None
            self.hang_up(client)
            return False
        self.served += 1
        return True

    def refuse(self, client: Client, reason: str) -> None:
        client.parent, client.waits = None, False
        self.cold[reason] += 1
        self.send(client, {"cold": reason})

    def send(self, client: Client, message: dict[str, Any]) -> None:
        try:
            wire.send(client.sock, message)
        except OSError:
            self.hang_up(client)

    # --- upkeep --------------------------------------------------------------
    def tick(self) -> None:
        if self.outdated and not any(client.parent for client in self.clients):
            self.stopping = True
        for parent in self.all_parents():
            if parent.overdue():
                parent.end("the imports took too long")
        self.tend()
        self.let_go()
        for parent in list(self.retired):
            if parent.idle or parent.state == "ended":
                self.retired.remove(parent)
                parent.end("it was replaced")
        if time.monotonic() - self.measured_at > MEASURE_S:
            self.keep_within_budget()

    def tend(self) -> None:
        """Note which parents are ready, and which have ended."""
        for key, parent in list(self.parents.items()):
            if parent.state == "ready":
                self.lacking.pop(key, None)
            if parent.state == "ended":
                self.note_end(key, parent)
                if parent.killed:
                    self.start_early(key)
        for key, parent in list(self.successors.items()):
            if parent.state == "ready":
                del self.successors[key]
                if key in self.parents:
                    self.retire(key)
                self.parents[key] = parent

    def let_go(self) -> None:
        """Part with parents whose Python is gone, and with those long out of use."""
        unused = time.monotonic() - IDLE_S
        for key, parent in list(self.parents.items()):
            if modified(key.python) is None:
                self.lacking.pop(key, None)
                self.retire(key)
            elif parent.idle and parent.used_at < unused and key != self.to_keep:
                self.retire(key)

    def note_end(self, key: Key, parent: Parent) -> None:
        """A parent that never served is not started again for UNFIT_S.

        One that was killed says nothing of its build: it starts again at once, after a
        pause only where it is killed time after time before it has served anybody.
        """
        del self.parents[key]
        self.lacking[key] = parent.reason
        if parent.served:
            self.kills.pop(key, None)
            return
        pause_s = UNFIT_S
        if parent.killed:
            pause_s = min(2.0 ** self.kills[key] - 1, UNFIT_S)
            self.kills[key] += 1
        self.unfit[key] = parent.reason, time.monotonic() + pause_s

    def retire(self, key: Key) -> None:
        """Fork no more children of this parent; it ends after those in use."""
        parent = self.parents.pop(key)
        parent.retired = True
        self.retired.append(parent)
        if successor := self.successors.pop(key, None):
            successor.end("it was replaced")

    def keep_within_budget(self) -> None:
        """End the least recently used idle parents, but never the last one."""
        self.measured_at = time.monotonic()
        used = sum(parent.measure() for parent in self.parents.values())
        by_use = sorted(self.parents.items(), key=lambda item: item[1].used_at)
        for key, parent in by_use[:-1]:
            if used > self.memory_mib and parent.idle and parent.state == "ready":
                used -= parent.pss_mib
                del self.parents[key]
                parent.end("the memory of the pool was needed")

    def cold_keys(self) -> list[dict[str, str]]:
        """What starts cold until its parent is ready again, and why."""
        return [
            {"interpreter": key.python, "reason": reason}
            for key, reason in self.lacking.items()
        ]

    def describe(self) -> dict[str, Any]:
        parents = [parent.describe() for parent in self.all_parents()]
        now = time.monotonic()
        return {
            "pid": os.getpid(),
            "protocol": pool_client.PROTOCOL,
            "digest": pool_client.digest(),
            "memory_mib": round(sum(row["memory_mib"] for row in parents), 1),
            "budget_mib": self.memory_mib,
            "served": self.served,
            "cold": dict(self.cold),
            "clients": len(self.clients),
            "parents": parents,
            "unfit": [
                {"interpreter": key.python, "compiler": key.compiler, "reason": reason}
                for key, (reason, until) in self.unfit.items()
                if now < until
            ],
            "age_s": round(now - self.began, 1),
        }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m runner.pool")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--memory-mib", type=int, default=DEFAULT_MEMORY_MIB)
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--with-parent", type=int, metavar="PID")
    options = parser.parse_args(argv)
    if options.status:
        status = pool_client.status(options.socket)
        sys.stdout.write(json.dumps(status, indent=1) + "\n")
        return 0 if status else 1
    if options.with_parent:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != options.with_parent:
            return 0
    pool = Pool(options.socket, options.memory_mib, waits=options.wait)
    try:
        pool.serve()
    except AlreadyRunning:
        sys.stderr.write(f"A pool serves {options.socket} already.\n")
    return 0
