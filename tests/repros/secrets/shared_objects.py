# trials = 2
"""Leaves shared memory, semaphores and queues for the next trial to find."""

import ctypes
import os


KEY = 0x0D0E5174


def trigger():
    libc = ctypes.CDLL(None, use_errno=True)
    key = TARGETS.get("shared_key", KEY)
    reached = int(libc.shmget(key, 4096, 0) >= 0)
    libc.shmget(key, 4096, 0o1600)
    marker = "/dev/shm/hostile-%d" % key
    reached += os.path.exists(marker)
    try:
        open(marker, "w").close()
    except OSError as error:
        print(error)
    return {"reached": reached}
