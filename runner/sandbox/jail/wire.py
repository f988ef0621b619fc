"""Messages between client, pool, warm parent and check: JSON with descriptors.

Over SOCK_SEQPACKET pairs a message is one packet. A request to a check is a stream,
because a source may be longer than a packet: JSON up to the end of the stream.

Standard library only, syntax of Python 3.8: it also runs under the build's Python.
"""

from __future__ import annotations

import array
import json
import os
import socket
from typing import Any, Dict, List, Optional, Sequence, Tuple

MOST_BYTES = 128 * 1024
MOST_DESCRIPTORS = 8
# So that no fork in another thread inherits what just arrived.
CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)

Message = Tuple[Dict[str, Any], List[int]]


def pair() -> Tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(
    sock: socket.socket, message: Dict[str, Any], descriptors: Sequence[int] = ()
) -> None:
    """One packet. Raises OSError, EMSGSIZE where it is too long."""
    sock.sendmsg([json.dumps(message).encode()], _rights(descriptors))


def _rights(descriptors: Sequence[int]) -> List[Any]:
    if not descriptors:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def receive(sock: socket.socket) -> Optional[Message]:
    """One packet; None at the end. Raises OSError, ValueError for what is no message.

    The descriptors are the caller's to close.
    """
    data, descriptors = _take(sock, MOST_BYTES)
    try:
        message = parse(data)
    except ValueError:
        close_all(descriptors)
        raise
    if not data:
        close_all(descriptors)
        return None
    return message, descriptors


def parse(data: bytes) -> Dict[str, Any]:
    """The object in a packet, {} for an empty one. Raises ValueError for any other."""
    try:
        message = json.loads(data.decode()) if data else {}
    except RecursionError:
        raise ValueError("not a message: nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("not a message: %r" % data[:80])
    return message


def send_stream(
    sock: socket.socket, message: Dict[str, Any], descriptors: Sequence[int]
) -> None:
    """A whole request; nothing can follow it."""
    data = json.dumps(message).encode()
    sent = sock.sendmsg([data], _rights(descriptors))
    sock.sendall(data[sent:])
    sock.shutdown(socket.SHUT_WR)


def receive_stream(sock: socket.socket) -> Optional[Message]:
    """The request of the other side; None where it closed without one."""
    data, descriptors = _take(sock, MOST_BYTES)
    whole = data
    while data:
        data = sock.recv(MOST_BYTES)
        whole += data
    return (json.loads(whole.decode()), descriptors) if whole else None


def _take(sock: socket.socket, size: int) -> Tuple[bytes, List[int]]:
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * descriptors.itemsize)
    data, ancillary, _, _ = sock.recvmsg(size, room, CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            whole = len(content) - len(content) % descriptors.itemsize
            descriptors.frombytes(content[:whole])
    return data, list(descriptors)


def close_all(descriptors: Sequence[int]) -> None:
    for number in descriptors:
        os.close(number)
