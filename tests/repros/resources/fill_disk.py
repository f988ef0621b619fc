# memory_mib = 4096
"""Fills every folder that it may write to, up to 1.5 GiB."""

import os


FOLDERS = (".", "/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "/mnt", "/")
NAMES = ("TMPDIR", "HOME", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")


def trigger():
    full, made = 0, []
    for folder in (*FOLDERS, *(os.environ.get(name, ".") for name in NAMES)):
        try:
            while full < 1536:
                made.append(os.path.join(folder, "hostile-%d-%d" % (os.getpid(), full)))
                with open(made[-1], "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 64 * 1024 * 1024)
                full += 64
        except OSError as error:
            print(folder, "after", full, "MiB", error)
    for name in made:
        if os.path.exists(name):
            os.unlink(name)
    return {"reached": int(full == 1536), "full": full}
