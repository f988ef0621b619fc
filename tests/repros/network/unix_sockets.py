"""Calls servers by the sockets they have in the file system, or by a name."""

import socket


KNOWN = ("/run/docker.sock", "/var/run/postgresql/.s.PGSQL.5432", "/tmp/.s.PGSQL.5432")


def trigger():
    found = []
    for path in [*TARGETS.get("sockets", []), *KNOWN]:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(socket.AF_UNIX, kind) as client:
                    client.connect(path.replace("@", "\0", 1) if path[0] == "@" else path)
                    client.send(b"hello")
            except OSError:
                continue
            found.append(path)
    return {"reached": len(found), "ran": ", ".join(found)}
