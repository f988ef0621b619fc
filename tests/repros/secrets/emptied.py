"""Empties others' files without opening them for writing."""

import ctypes
import os


TRUNCATE, NEITHER = os.O_TRUNC, os.O_TRUNC | 3
OPENAT2 = 437


def attempts(libc, path):
    how = (ctypes.c_uint64 * 3)(TRUNCATE, 0, 0)
    yield "reading", lambda: os.close(os.open(path, os.O_RDONLY | TRUNCATE))
    yield "neither", lambda: os.close(os.open(path, NEITHER))
    yield "append", lambda: os.close(os.open(path, os.O_APPEND | TRUNCATE))
    yield "openat2", lambda: libc.syscall(OPENAT2, -100, path.encode(), how, 24)
    yield "by name", lambda: os.truncate(path, 0)
    yield "creat", lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY | TRUNCATE))


def trigger():
    libc, found = ctypes.CDLL(None, use_errno=True), []
    for path in TARGETS.get("own_files", []):
        for name, attempt in attempts(libc, path):
            try:
                with open(path, "rb") as file:
                    content = file.read()
            except OSError:
                content = None
            try:
                if attempt() == -1:
                    continue
            except OSError:
                continue
            found.append("%s %s" % (name, path))
            if content is not None:
                with open(path, "r+b") as file:
                    file.write(content)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
