"""Calls the site, the database, the broker and the world."""

import socket
import time


def ask(host, port):
    """Raises where nobody is there: the second call hears of the first."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((host, port))
    for _ in range(3):
        client.send(b"hello")
        time.sleep(0.05)


def attempts():
    for host, port in TARGETS.get("tcp", []):
        yield "tcp %s:%d" % (host, port), lambda: socket.create_connection(
            (host, port), timeout=2
        ).sendall(b"GET / HTTP/1.0\r\n\r\n")
    for host, port in TARGETS.get("udp", []):
        yield "udp %s:%d" % (host, port), lambda: ask(host, port)
    yield "broadcast", lambda: socket.socket(
        socket.AF_INET, socket.SOCK_DGRAM
    ).connect(("192.0.2.1", 9))
    yield "raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    yield "packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    yield "vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect(
        (2, 1024)
    )


def trigger():
    found = []
    for name, attempt in attempts():
        try:
            attempt()
        except (OSError, AttributeError):
            continue
        found.append(name)
    return {"reached": len(found), "ran": ", ".join(found)}
