"""Servers for the tests tagged "servers": PostgreSQL, RabbitMQ and Redis on loopback.

Each test gets a database, queues or keys of its own and takes them away again. Where
there is no server, its tests are skipped, and the count line says so.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import unittest
import uuid
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

import psycopg
from kombu import Connection

POSTGRES = os.environ.get("TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432")
RABBITMQ = os.environ.get("TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672//")
REDIS = os.environ.get("TEST_REDIS", "redis://127.0.0.1:6379/0")
CONNECT_S = 2


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    return parts.hostname, parts.port


def require(url: str) -> None:
    """Skip the test where nothing listens at this address."""
    try:
        socket.create_connection(address_of(url), CONNECT_S).close()
    except OSError as error:
        raise unittest.SkipTest(f"no server at {address_of(url)}: {error}") from None


def unique_name() -> str:
    return f"dntest{uuid.uuid4().hex[:10]}"


def postgres_database(test: unittest.TestCase) -> str:
    """The URL of a new database, dropped after the test."""
    require(POSTGRES)
    name = unique_name()

    def execute(statement: str) -> None:
        with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True) as server:
            server.execute(statement)

    execute(f"CREATE DATABASE {name}")
    test.addCleanup(execute, f"DROP DATABASE {name} WITH (FORCE)")
    return f"{POSTGRES}/{name}"


def queue_prefix(test: unittest.TestCase, url: str, queues: Iterable[str]) -> str:
    """A prefix for queue names; those queues are deleted after the test."""
    require(url)
    prefix = f"{unique_name()}."

    def delete() -> None:
        with Connection(url) as connection:
            for queue in queues:
                with suppress(connection.channel_errors):
                    connection.channel().queue_delete(prefix + queue)

    def delete_keys() -> None:
        import redis

        with redis.Redis.from_url(url) as server:
            for key in server.scan_iter(f"{prefix}*"):
                server.delete(key)

    test.addCleanup(delete_keys if url.startswith("redis") else delete)
    return prefix


class Proxy:
    """Forwards to a server until told to refuse, or to take connections and hang."""

    def __init__(self, url: str) -> None:
        self.target = address_of(url)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        host, port = self.target
        self.url = url.replace(f"{host}:{port}", f"127.0.0.1:{self.port}")
        self.mode = "forward"
        self.open: list[socket.socket] = []
        self.ended = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while not self.ended.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(client)
            if self.mode == "refuse":
                client.close()
            elif self.mode == "forward":
                self.forward(client)

    def forward(self, client: socket.socket) -> None:
        server = socket.create_connection(self.target)
        self.open.append(server)
        for source, sink in [(client, server), (server, client)]:
            threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    def set_mode(self, mode: str) -> None:
        """ "forward", "refuse" or "hang"; cuts what is open."""
        self.mode = mode
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.open.clear()

    def close(self) -> None:
        self.ended.set()
        self.listener.close()
        self.set_mode("refuse")


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    try:
        require(sys.argv[1])
    except unittest.SkipTest as reason:
        sys.exit(f"skipped: {reason}")
