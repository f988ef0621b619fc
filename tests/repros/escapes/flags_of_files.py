"""Sets flags, projects and versions of files that it can only read."""

import fcntl
import importlib.util
import os
import sysconfig


GET_FLAGS, SET_FLAGS, SET_FLAGS_32 = 0x80086601, 0x40086602, 0x40046602
GET_PROJECT, SET_PROJECT = 0x801C581F, 0x401C5820
GET_VERSION, SET_VERSION = 0x80087601, 0x40087602
PAIRS = (
    ("flags", GET_FLAGS, SET_FLAGS, 8),
    ("flags, as of 32 bits", GET_FLAGS, SET_FLAGS_32, 8),
    ("project", GET_PROJECT, SET_PROJECT, 28),
    ("version", GET_VERSION, SET_VERSION, 8),
)


def trigger():
    found = []
    places = [sysconfig.get_path("purelib"), importlib.util.find_spec("torch").origin]
    for path in [*TARGETS.get("own_files", []), *places]:
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        for name, get, put, size in PAIRS:
            try:
                now = fcntl.ioctl(fd, get, bytes(size))
                fcntl.ioctl(fd, put, now)
            except OSError:
                continue
            found.append("%s %s" % (name, path))
        os.close(fd)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
