"""Asks the kernel for the network by its own door."""

import socket


def trigger():
    try:
        client = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        client.bind((0, 0))
        client.settimeout(2)
        client.send(b"\x14\0\0\0\x12\0\x01\x03" + b"\0" * 8 + b"\0" * 4)
        links = client.recv(65536).count(b"\x10\0\x05\0")
    except OSError as error:
        return {"reached": 0, "ran": str(error)}
    return {"reached": int(links > 1), "ran": "%d links" % links}
