"""Calls a server without a connection, and passes it a descriptor."""

import array
import socket


def trigger():
    found = []
    for path in TARGETS.get("datagram_sockets", []):
        address = path.replace("@", "\0", 1) if path[0] == "@" else path
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
                client.sendmsg([b"hello"], rights, 0, address)
        except OSError:
            continue
        found.append(path)
    return {"reached": len(found), "ran": ", ".join(found)}
