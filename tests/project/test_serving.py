"""The web server's process on loopback: what clients may do, and for how long."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from django.test import SimpleTestCase

from config import serving
from tests.support.sites import wait_for

PATIENCE_S = 30
ASK = b"GET %s HTTP/1.1\r\nHost: here\r\n%s\r\n"
LARGE = 8 * 1024 * 1024


class Clock:
    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class ServingTest(SimpleTestCase):
    most = of_one = 100

    def setUp(self) -> None:
        self.clock = Clock()
        self.enterContext(mock.patch.object(serving, "now", self.clock))
        self.go_on, self.serving = threading.Event(), threading.Event()
        self.addCleanup(self.go_on.set)
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        self.port = listener.getsockname()[1]
        self.channels: dict[int, Any] = {}
        adj = serving.adjustments(1, 1000, self.most, self.of_one)
        (self.server,) = serving.serve(self.answer, [listener], adj, self.channels)
        self.over = threading.Event()
        loop = threading.Thread(target=self.loop)
        loop.start()
        self.addCleanup(loop.join)
        self.addCleanup(self.over.set)

    def loop(self) -> None:
        while not self.over.is_set():
            serving.turn(self.channels)
        self.server.task_dispatcher.shutdown()
        for channel in list(self.server.active_channels.values()):
            channel.handle_close()

    def answer(
        self, environ: dict[str, Any], start: Callable[..., object]
    ) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/same":
            start("304 Not Modified", [("ETag", '"1"')])
            return []
        start("200 OK", [("Content-Type", "application/json")])
        if environ["PATH_INFO"] == "/slow":
            self.serving.set()
            self.go_on.wait(PATIENCE_S)
        if environ["PATH_INFO"] == "/large":
            return [b"x" * LARGE]
        told = {key: value for key, value in environ.items() if isinstance(value, str)}
        told["body"] = environ["wsgi.input"].read().decode()
        return [json.dumps(told).encode()]

    @contextlib.contextmanager
    def connect(self, sent: bytes = b"") -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as client:
            client.sendall(sent)
            yield client

    def ask(self, path: bytes = b"/", headers: bytes = b"", body: bytes = b"") -> bytes:
        """The whole answer."""
        with self.connect(ASK % (path, b"Connection: close\r\n" + headers) + body) as c:
            return rest(c)

    def environ(self, headers: bytes) -> dict[str, str]:
        head, _, body = self.ask(b"/x", headers).partition(b"\r\n\r\n")
        self.assertIn(b" 200 OK", head)
        return dict(json.loads(body))

    def status(self, *request: bytes) -> bytes:
        return self.ask(*request).split()[1]


def rest(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


class LimitsTest(ServingTest):
    def test_unfinished_requests_hold_no_thread(self) -> None:
        with contextlib.ExitStack() as held:
            for begin in (b"", b"GET / HT", ASK % (b"/", b"Content-Length: 9\r\n")) * 5:
                held.enter_context(self.connect(begin))
            self.assertEqual(self.status(), b"200")

    def test_a_head_that_does_not_end_is_closed(self) -> None:
        self.is_closed_after(b"GET / HTTP/1.1\r\nX: ", serving.HEAD_S, b"HTTP/1.1 408")

    def test_a_body_that_does_not_end_is_closed(self) -> None:
        begin = ASK % (b"/", b"Content-Length: 9\r\n")
        self.is_closed_after(begin, serving.REQUEST_S, b"HTTP/1.1 408")

    def test_a_body_over_the_limit_is_answered_and_not_reset(self) -> None:
        size = serving.BODY_BYTES + 2 * 1024 * 1024
        head = ASK % (b"/", b"Content-Length: %d\r\n" % size)
        with self.connect(head + b"x" * size) as client:
            self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 413"))

    def test_who_waits_to_be_asked_for_a_large_body_is_refused_at_once(self) -> None:
        length = b"Content-Length: %d\r\n" % (2 * serving.BODY_BYTES)
        asked = ASK % (b"/", length + b"Expect: 100-continue\r\n")
        with self.connect(asked) as client:
            self.assertTrue(rest(client).startswith(b"HTTP/1.1 413"))

    def test_silence_is_closed(self) -> None:
        self.is_closed_after(b"", serving.IDLE_S, b"")

    def test_empty_lines_are_silence(self) -> None:
        self.is_closed_after(b"\r\n\r\n" * 9, serving.IDLE_S, b"")

    def is_closed_after(self, begin: bytes, limit: float, said: bytes) -> None:
        with self.connect(begin) as client:
            # Answered later on the same loop: what was sent before has been read.
            self.assertEqual(self.status(), b"200")
            (channel,) = self.server.active_channels.values()
            self.assertFalse(channel.is_late(self.clock() + limit - PATIENCE_S / 5))
            self.clock.ahead = limit + 1
            self.assertTrue(rest(client).startswith(said))

    def test_an_answer_that_nobody_fetches_is_dropped(self) -> None:
        with self.connect(ASK % (b"/large", b"")) as client:
            client.recv(1)
            # The only thread answers another: it is done with the large answer.
            self.assertEqual(self.status(), b"200")
            self.clock.ahead = serving.ANSWER_S + 1
            wait_for(lambda: not self.server.active_channels, "an open connection")
            self.assertLess(len(rest(client)), LARGE)

    def test_a_request_that_takes_long_is_not_cut(self) -> None:
        with self.connect(ASK % (b"/slow", b"Connection: close\r\n")) as client:
            self.assertTrue(self.serving.wait(PATIENCE_S))
            self.clock.ahead = 10 * serving.ANSWER_S
            self.server.maintenance(0)
            self.go_on.set()
            self.assertIn(b" 200 OK", rest(client))

    def test_what_is_too_long_is_refused(self) -> None:
        self.assertEqual(self.status(b"/" + b"x" * 1000), b"414")
        self.assertEqual(self.status(b"/", b"X: %s\r\n" % (b"x" * 40_000)), b"431")

    def test_a_stop_answers_what_has_arrived(self) -> None:
        # The first to come has been accepted when the second is served.
        with self.connect() as idle, self.connect(ASK % (b"/slow", b"")) as busy:
            self.assertTrue(self.serving.wait(PATIENCE_S))
            self.server.stop()
            self.assertEqual(rest(idle), b"")
            self.assertFalse(self.server.is_quiet)
            self.go_on.set()
            self.assertIn(b" 200 OK", busy.recv(65536))


class RoomTest(ServingTest):
    most = 3

    def test_one_too_many_closes_the_one_that_waits_longest(self) -> None:
        with (
            self.connect(ASK % (b"/slow", b"")) as busy,
            self.connect() as first,
            self.connect() as second,
        ):
            self.assertTrue(self.serving.wait(PATIENCE_S))
            with self.connect() as third:
                self.assertEqual(first.recv(1), b"")
                self.go_on.set()
                self.assertIn(b" 200 OK", busy.recv(65536))
                for one in (second, third):
                    one.sendall(ASK % (b"/", b"Connection: close\r\n"))
                    self.assertIn(b" 200 OK", rest(one))


class CrowdTest(RoomTest):
    """The same of one address where there is room for others."""

    most, of_one = 100, 3


class TrustTest(ServingTest):
    def test_no_client_says_where_he_is(self) -> None:
        for name in (b"SCRIPT_NAME", b"Script-Name", b"X-Script-Name", b"Script_Name"):
            told = self.environ(b"%s: /admin\r\n" % name)
            self.assertEqual((told["SCRIPT_NAME"], told["PATH_INFO"]), ("", "/x"))

    def test_no_client_says_who_he_is(self) -> None:
        told = self.environ(
            b"X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n"
            b"X-Forwarded-Host: there\r\nX-Forwarded-Ssl: on\r\n"
            b"Forwarded: for=192.0.2.1;proto=https\r\nREMOTE_USER: root\r\n"
        )
        self.assertEqual(told["wsgi.url_scheme"], "http")
        self.assertEqual(told["REMOTE_ADDR"], "127.0.0.1")
        self.assertEqual(told["HTTP_HOST"], "here")
        self.assertNotIn("HTTP_REMOTE_USER", told)
        # The settings say whether to believe it.
        self.assertEqual(told["HTTP_X_FORWARDED_FOR"], "192.0.2.1")

    def test_requests_are_not_smuggled(self) -> None:
        length, chunks = b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"
        for headers, body in (
            (length + b"Content-Length: 5\r\n", b"abcde"),
            (b"Content-Length: +4\r\n", b"abcd"),
            (b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
            (chunks, b"0x4\r\nabcd\r\n0\r\n\r\n"),
            (b"X: a\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
        ):
            self.assertEqual(self.status(b"/", headers, body), b"400", headers)
        self.assertEqual(
            self.status(b"/", b"Transfer-Encoding: x, chunked\r\n"), b"501"
        )

    def test_what_has_not_changed_keeps_the_connection(self) -> None:
        with self.connect(ASK % (b"/same", b"")) as client:
            for _ in range(2):
                answer = client.recv(1000)
                self.assertTrue(answer.startswith(b"HTTP/1.1 304"), answer)
                self.assertNotIn(b"Connection: close", answer)
                client.sendall(ASK % (b"/same", b""))
        self.assertIn(b"Connection: close", self.ask(b"/same"))
        with self.connect(b"GET /same HTTP/1.0\r\n\r\n") as client:
            self.assertTrue(rest(client).startswith(b"HTTP/1.0 304"))

    def test_a_thread_is_started_where_none_is_free(self) -> None:
        threads = serving.Threads(2)
        self.addCleanup(threads.shutdown)
        held, done = threading.Event(), threading.Semaphore(0)
        self.addCleanup(held.set)
        quick, slow = mock.Mock(), mock.Mock()
        quick.service.side_effect = done.release
        slow.service.side_effect = held.wait
        for started in (1, 1, 1):
            threads.add_task(quick)
            self.assertTrue(done.acquire(timeout=PATIENCE_S))
            wait_for(lambda: threads.active_count == 0, "the thread is free")
            self.assertEqual(len(threads.threads), started)
        for started in (1, 2, 2):
            threads.add_task(slow)
            self.assertEqual(len(threads.threads), started)

    def test_requests_in_one_piece_are_answered_in_turn(self) -> None:
        first, last = (ASK % (b"/%d" % n, b"Content-Length: 1\r\n") for n in (1, 2))
        last = last.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        with self.connect(first + b"a" + last + b"b") as client:
            said = rest(client)
        self.assertLess(said.index(b'"body": "a"'), said.index(b'"body": "b"'))
