# memory_mib = 4096
"""Fills /dev/shm, up to 1 GiB."""

import os


def trigger():
    names, full = [], 0
    try:
        for number in range(16):
            names.append("/dev/shm/hostile-%d-%d" % (os.getpid(), number))
            with open(names[-1], "wb") as file:
                os.posix_fallocate(file.fileno(), 0, 64 * 1024 * 1024)
            full += 64
    except OSError as error:
        print("after", full, "MiB", error)
    finally:
        for name in names:
            if os.path.exists(name):
                os.unlink(name)
    return {"reached": int(full == 1024), "full": full}
