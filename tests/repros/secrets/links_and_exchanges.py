"""Takes hold of others' files by links of descriptors and by exchanging names."""

import ctypes
import os


HERE, FOLLOW, EMPTY, EXCHANGE = -100, 0x400, 0x1000, 2
NUMBERS = {"x86_64": (265, 316), "aarch64": (37, 276)}


def attempts(libc, path):
    linkat, renameat2 = NUMBERS.get(os.uname().machine, (-1, -1))
    fd = os.open(path, os.O_PATH)
    by_name = b"/proc/self/fd/%d" % fd
    open("mine", "w").close()
    os.makedirs("folder", exist_ok=True)
    yield lambda: libc.syscall(linkat, HERE, by_name, HERE, b"taken", FOLLOW)
    yield lambda: libc.syscall(linkat, fd, b"", HERE, b"taken by fd", EMPTY)
    for name in ("mine", "folder"):
        here, there = name.encode(), path.encode()
        if name == "folder":
            there = os.path.dirname(there)
        # Twice, so that all is where it was.
        yield lambda: libc.syscall(renameat2, HERE, here, HERE, there, EXCHANGE)
        yield lambda: libc.syscall(renameat2, HERE, here, HERE, there, EXCHANGE)
    yield lambda: os.link("mine", path + ".planted") or os.unlink(path + ".planted")
    yield (
        lambda: os.rename("mine", path + ".moved") or os.rename(path + ".moved", "mine")
    )
    yield lambda: os.symlink("mine", path + ".link") or os.unlink(path + ".link")
    yield lambda: os.mkfifo(path + ".pipe") or os.unlink(path + ".pipe")


def trigger():
    libc, found = ctypes.CDLL(None, use_errno=True), []
    for path in TARGETS.get("own_files", []):
        try:
            tries = list(attempts(libc, path))
        except OSError:
            continue
        for number, attempt in enumerate(tries):
            try:
                if attempt() == -1:
                    continue
            except OSError:
                continue
            found.append("%d %s" % (number, path))
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
