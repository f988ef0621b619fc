"""The web server's process: a thread only for a request that has arrived whole.

gunicorn keeps the processes (config/gunicorn.py); its own workers read each request in
the thread that answers it, so that a few clients who send slowly hold the site. Here
waitress reads requests and writes answers in one loop, which costs an idle client a
file descriptor. What waitress has no limits for stands here: how long a request may
take to arrive and an answer to be fetched, and how many connections there may be.
Whoever is one too many closes the connection that has been waiting longest.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher, WSGITask
from waitress.utilities import Error, RequestEntityTooLarge

# Seconds without a request; for a request's head; for all of it; to fetch an answer.
IDLE_S, HEAD_S, REQUEST_S, ANSWER_S = 30.0, 10.0, 60.0, 120.0
# Of one process, and of one address where no proxy stands before all of them.
CONNECTIONS, PER_ADDRESS = 1000, 500
HEAD_BYTES, BODY_BYTES = 32 * 1024, 8 * 1024 * 1024
# A body over the limit is read to its end, and thrown away, up to this length: whoever
# still sends when the connection is closed sees a reset and not the answer.
THROWN_BYTES = 64 * 1024 * 1024
# More than this of a body or of an answer waits in a file.
IN_MEMORY = 64 * 1024
LOOP_S = 0.5  # so long a signal may wait
TIMED_OUT = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)

now = time.monotonic


class TooLong(Error):
    code = 414
    reason = "URI Too Long"


class Parser(HTTPRequestParser):
    """Refuses long addresses, which waitress takes up to the length of a head.

    What is too large is refused once it has arrived, unless the client waits to be
    asked for it.
    """

    error: Error | None
    expect_continue: bool
    thrown = 0  # bytes of the body that are still to be thrown away

    def received(self, data: bytes) -> int:
        if self.thrown:
            taken = min(self.thrown, len(data))
            self.thrown -= taken
            self.completed = not self.thrown
            return taken
        consumed: int = super().received(data)
        if isinstance(self.error, RequestEntityTooLarge):
            if self.expect_continue:
                self.expect_continue = False
            elif self.content_length <= THROWN_BYTES and not self.chunked:
                self.thrown, self.completed = self.content_length, False
        line, longest = getattr(self, "first_line", b""), self.adj.longest_line
        if self.headers_finished and not self.error and len(line) > longest:
            self.error = TooLong(f"exceeds {longest} bytes")
            self.completed = True
        return consumed


class Task(WSGITask):
    """Keeps the connection after a status that has no body, such as 304.

    waitress closes it there, as where a length is missing, and each time that a reader
    asks whether a page has changed costs a connection.
    """

    def set_close_on_finish(self) -> None:
        asked = self.request.headers.get("CONNECTION", "").lower()
        if self.has_body or self.version == "1.0" or asked == "close":
            super().set_close_on_finish()


class Channel(HTTPChannel):
    """One connection; the loop reads and writes it, a thread only calls service()."""

    parser_class = Parser
    task_class = Task
    arriving: Parser | None = None  # the request that `began` is of
    began = 0.0

    def __init__(self, server: Server, *args: Any, **kwargs: Any) -> None:
        self.free_since = now()  # or has been busy with an answer
        super().__init__(server, *args, **kwargs)
        server.make_room(self)

    def received(self, data: bytes) -> bool:
        taken: bool = super().received(data)
        if self.request is not self.arriving:
            self.arriving, self.began = self.request, now()
        return taken

    def service(self) -> None:
        self.free_since = now()
        super().service()
        self.free_since = now()

    @property
    def waits(self) -> bool:
        """Whether nobody here has to do anything for it."""
        return not (self.requests or self.total_outbufs_len or self.will_close)

    def is_late(self, at: float) -> bool:
        if self.total_outbufs_len:
            return at - self.free_since > ANSWER_S
        if self.requests:
            return False
        if self.request is None:
            return at - self.free_since > IDLE_S
        limit = REQUEST_S if self.request.headers_finished else HEAD_S
        return at - self.began > limit

    def drop(self) -> None:
        """Close at once: a client that does not read would never become writable."""
        if self.waits and self.request is not None:
            with contextlib.suppress(OSError):
                self.socket.send(TIMED_OUT)
        self.handle_close()


class Server(TcpWSGIServer):
    channel_class = Channel

    def maintenance(self, _at: float) -> None:
        """Called by waitress's loop each second."""
        at = now()
        for channel in list(self.active_channels.values()):
            if channel.is_late(at):
                channel.drop()

    def make_room(self, newest: Channel) -> None:
        """Have the connection closed that waits longest where there are too many."""
        channels = [one for one in self.active_channels.values() if not one.will_close]
        crowd = [one for one in channels if one.addr[0] == newest.addr[0]]
        if len(channels) > self.adj.most:
            of = Counter(one.addr[0] for one in channels if one.waits)
            busiest = max(of, key=lambda address: of[address])
            crowd = [one for one in channels if one.addr[0] == busiest]
        elif len(crowd) <= self.adj.most_of_one:
            return
        waiting = [one for one in crowd if one.waits and one is not newest]
        if waiting:
            # The loop closes it in its next round.
            min(waiting, key=lambda one: one.free_since).will_close = True

    def stop(self) -> None:
        """Take nothing new; what has arrived is answered."""
        self.accepting = False
        for channel in list(self.active_channels.values()):
            if channel.waits:
                channel.handle_close()

    @property
    def is_quiet(self) -> bool:
        return not any(
            one.requests or one.total_outbufs_len
            for one in self.active_channels.values()
        )


class Threads(ThreadedTaskDispatcher):
    """Starts another thread, up to `most`, only where all are busy.

    Each has a connection to the database: waitress would have all of them take turns.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def add_task(self, task: Channel) -> None:
        with self.lock:
            count = len(self.threads)
            busy = self.active_count + len(self.queue) >= count - self.stop_count
        if busy and count < self.most:
            self.set_thread_count(count + 1)
        super().add_task(task)


def adjustments(threads: int, longest_line: int, most: int, of_one: int) -> Adjustments:
    adj = Adjustments(
        threads=threads,
        ident="",
        # Whom to believe is settings.NUM_PROXIES' matter.
        clear_untrusted_proxy_headers=False,
        max_request_header_size=HEAD_BYTES,
        max_request_body_size=BODY_BYTES,
        inbuf_overflow=IN_MEMORY,
        outbuf_overflow=IN_MEMORY,
        cleanup_interval=1,
        # make_room keeps below: waitress would stop to accept.
        connection_limit=2 * most + 100,
        log_socket_errors=False,
    )
    adj.longest_line, adj.most, adj.most_of_one = longest_line, most, of_one
    return adj


def descriptors() -> int:
    """How many files this process may open, of which it gets more where it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


class BufferingWorker(Worker):
    """A process of gunicorn's in which waitress does the reading and writing."""

    def servers(self, channels: dict[int, Any]) -> list[Server]:
        # A connection may have two files beside its socket.
        most = min(CONNECTIONS, descriptors() // 4)
        # Behind a proxy all have its address.
        of_one = most if settings.NUM_PROXIES else min(most, PER_ADDRESS)
        adj = adjustments(self.cfg.threads, self.cfg.limit_request_line, most, of_one)
        listeners = [listener.sock for listener in self.sockets]
        return serve(self.wsgi, listeners, adj, channels)

    def run(self) -> None:
        channels: dict[int, Any] = {}
        servers = self.servers(channels)
        while self.alive and os.getppid() == self.ppid:
            self.notify()
            turn(channels)
        for server in servers:
            server.stop()
        end = now() + self.cfg.graceful_timeout
        while now() < end and not all(server.is_quiet for server in servers):
            self.notify()
            turn(channels)


def serve(
    application: Any,
    listeners: Iterable[socket.socket],
    adj: Adjustments,
    channels: dict[int, Any],
) -> list[Server]:
    """Servers on sockets that are bound; turn(channels) makes all of them work."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    threads = Threads(adj.threads)
    return [
        Server(
            application,
            map=channels,
            _sock=listener,
            dispatcher=threads,
            adj=adj,
            sockinfo=(
                *(listener.family, listener.type, listener.proto),
                listener.getsockname(),
            ),
            bind_socket=False,
        )
        for listener in listeners
    ]


def turn(channels: dict[int, Any]) -> None:
    """Read and write what can be, or wait a while for something that can."""
    wasyncore.loop(LOOP_S, use_poll=True, map=channels, count=1)
