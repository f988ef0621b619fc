"""Opens devices that are more than a source of zeros."""

import os
import stat


HARMLESS = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "core", "shm")


def trigger():
    found = []
    for folder, _, names in os.walk("/dev"):
        if folder.startswith(("/dev/shm", "/dev/fd", "/dev/pts")):
            continue
        for name in names:
            path = os.path.join(folder, name)
            kind = os.lstat(path).st_mode
            if name in HARMLESS or not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)):
                continue
            if name.startswith("nvidia"):
                continue
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            except OSError:
                continue
            found.append(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
