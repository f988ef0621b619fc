"""Leaves a server behind that listens on every address."""

import os
import socket
import time


def trigger():
    try:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", TARGETS.get("free_port", 0)))
        server.listen()
    except OSError as error:
        return {"reached": 0, "ran": str(error)}
    if not os.fork():
        os.setsid()
        server.settimeout(60)
        try:
            server.accept()
        finally:
            os._exit(0)
    return {"reached": 0}
