"""Calls a server by the kind of socket that only looks like another."""

import socket


def trigger():
    found = []
    for path in TARGETS.get("datagram_sockets", []):
        address = path.replace("@", "\0", 1) if path[0] == "@" else path
        for make in (
            lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RAW),
            lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0],
            lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0],
        ):
            try:
                with make() as client:
                    client.sendmsg([b"hello"], [], 0, address)
            except OSError:
                continue
            found.append(path)
    return {"reached": len(found), "ran": ", ".join(found)}
