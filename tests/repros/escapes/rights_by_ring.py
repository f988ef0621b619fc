"""Asks a ring of the kernel to set an attribute in its stead."""

import ctypes
import mmap
import os
import struct
import sysconfig


SETUP, ENTER, FSETXATTR = 425, 426, 41
RING, ENTRIES = 0, 0x10000000


def trigger():
    """One request to set an attribute, by hand: struct io_uring_params and _sqe."""
    libc = ctypes.CDLL(None, use_errno=True)
    params = ctypes.create_string_buffer(120)
    ring = libc.syscall(SETUP, 1, params)
    if ring < 0:
        return {"reached": 0, "ran": os.strerror(ctypes.get_errno())}
    queue, entries = (
        mmap.mmap(ring, 4096, offset=RING),
        mmap.mmap(ring, 4096, offset=ENTRIES),
    )
    tail, array = (
        struct.unpack_from("I", params, 44)[0],
        struct.unpack_from("I", params, 64)[0],
    )
    name, value = (
        ctypes.create_string_buffer(b"user.hostile"),
        ctypes.create_string_buffer(b"x"),
    )
    fd = os.open(sysconfig.get_path("purelib"), os.O_RDONLY)
    places = (ctypes.addressof(value), ctypes.addressof(name))
    struct.pack_into("BBHiQQII", entries, 0, FSETXATTR, 0, 0, fd, *places, 1, 0)
    struct.pack_into("I", queue, array, 0)
    struct.pack_into("I", queue, tail, 1)
    libc.syscall(ENTER, ring, 1, 1, 1, None, 0)
    os.close(ring)
    reached = "user.hostile" in os.listxattr(fd)
    if reached:
        os.removexattr(fd, "user.hostile")
    return {"reached": 1 + reached, "ran": "a ring"}
