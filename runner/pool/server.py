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
from runner.pool.parents import Parent, Spare
from runner.pool.stock import Stock
from runner.sandbox.jail import kernel, wire

DEFAULT_MEMORY_MIB = 2048
TICK_S = 1.0
MAX_CLIENTS = 512
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
        self.waits = waits
        self.selector = selectors.DefaultSelector()
        self.stock = Stock(memory_mib, self.selector, self.deliver, self.refuse)
        self.clients: set[Client] = set()
        self.cold: collections.Counter[str] = collections.Counter()
        self.served = 0
        self.began = time.monotonic()
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
        if self.outdated and not any(client.parent for client in self.clients):
            self.stopping = True
        self.stock.tend()

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
        self.stock.end("the pool stops")
        self.selector.close()

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
            self.send(client, {"cold": self.stock.cold_keys()})
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
                self.send(client, {"warm": self.stock.keep(key)})
            else:
                self.assign(client, key)

    def assign(self, client: Client, key: Key) -> None:
        """Queue a client at the parent for `key`, which is started if needed."""
        try:
            parent = self.stock.parent_for(key)
        except NotWarm as error:
            self.refuse(client, str(error))
            return
        client.parent, client.waits = parent, True
        parent.wait(client)

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

    def describe(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "protocol": pool_client.PROTOCOL,
            "digest": pool_client.digest(),
            "served": self.served,
            "cold": dict(self.cold),
            "clients": len(self.clients),
            **self.stock.describe(),
            "age_s": round(time.monotonic() - self.began, 1),
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
