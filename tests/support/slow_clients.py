"""Clients that cost a server more than they do: silent ones, and ones that trickle.

`python -m tests.support.slow_clients PORT` attacks the site on a port of this machine.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException

IDLE, TRICKLING = 500, 100
EACH_S = 1.0  # between two bytes
HEAD = b"GET /en/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = (
    b"POST /api/v1/lookup HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
)
PATIENCE_S = 20


class Attack:
    """Keeps its connections open and opens those again that the server closes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.begins = [b""] * IDLE + [HEAD, BODY] * (TRICKLING // 2)
        self.sockets: list[socket.socket | None] = [None] * len(self.begins)
        self.reopened = self.refused = 0
        self.complete, self.over = threading.Event(), threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            begin = time.monotonic()
            for at, sent in enumerate(self.begins):
                self.keep(at, sent)
            self.complete.set()
            self.over.wait(max(0.0, EACH_S - (time.monotonic() - begin)))
        for one in filter(None, self.sockets):
            one.close()

    def keep(self, at: int, begin: bytes) -> None:
        held = self.sockets[at]
        if held:
            try:
                if is_open(held):
                    held.send(b"x" if begin else b"")
                    return
            except OSError:
                pass
            held.close()
            self.reopened += 1
        self.sockets[at] = None
        try:
            new = socket.create_connection(("127.0.0.1", self.port), timeout=1)
            new.setblocking(False)
            new.send(begin)
            self.sockets[at] = new
        except OSError:
            self.refused += 1


def is_open(held: socket.socket) -> bool:
    try:
        return held.recv(4096) != b""
    except BlockingIOError:
        return True


@contextlib.contextmanager
def attack(port: int) -> Iterator[Attack]:
    """From when every connection of it is there."""
    attacker = Attack(port)
    thread = threading.Thread(target=attacker.run, daemon=True)
    thread.start()
    try:
        attacker.complete.wait()
        yield attacker
    finally:
        attacker.over.set()
        thread.join()


def seconds_of(port: int, path: str, times: int) -> list[float | None]:
    """What each of some readers waited, one after the other.

    None ends it: that one got no answer.
    """
    waited: list[float | None] = []
    while len(waited) < times and None not in waited:
        waited.append(seconds(port, path))
    return waited


def seconds(port: int, path: str) -> float | None:
    reader = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    begin = time.perf_counter()
    try:
        reader.request("GET", path)
        response = reader.getresponse()
        response.read()
    except (OSError, HTTPException):
        return None
    finally:
        reader.close()
    return time.perf_counter() - begin if response.status == 200 else None


def p95(waited: list[float | None]) -> float:
    """Of those who got an answer, and endless where one of them got none."""
    if None in waited:
        return float("inf")
    return sorted(filter(None, waited))[int(0.95 * len(waited))]


def main(port: int, path: str = "/en/", readers: int = 40) -> None:
    """Print p95 of a page without and with the attack, in seconds."""
    calm = p95(seconds_of(port, path, readers))
    with attack(port) as attacker:
        beset = p95(seconds_of(port, path, readers))
    of = f"{attacker.reopened} reopened, {attacker.refused} refused"
    sys.stdout.write(f"calm {calm:.3f}, beset {beset:.3f} ({of})\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
