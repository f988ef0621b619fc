"""Makes devices, roots and mounts of its own by the numbers of the calls."""

import ctypes
import os
import stat


X86_64 = {"mknod": 133, "mknodat": 259, "chroot": 161, "pivot_root": 155, "mount": 165}
AARCH64 = {"mknodat": 33, "chroot": 51, "pivot_root": 41, "mount": 40}
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSPICK, ATTRIBUTES = 428, 429, 430, 433, 467
CLONE, BIND = 1, 4096


def calls():
    here = os.getcwd().encode()
    for kind, major, minor in ((stat.S_IFCHR, 1, 3), (stat.S_IFBLK, 7, 0)):
        node = b"node %d" % kind
        yield "mknod", (node, kind | 0o600, os.makedev(major, minor))
        # Only the lower half of a mode is read.
        yield "mknodat", (-100, node, kind | 0o600 | 1 << 40, os.makedev(major, minor))
    yield "chroot", (here,)
    yield "pivot_root", (here, here)
    yield "mount", (here, here, None, BIND, None)
    yield OPEN_TREE, (-100, here, CLONE)
    yield FSOPEN, (b"tmpfs", 0)
    yield FSPICK, (-100, here, 0)
    yield ATTRIBUTES, (-100, here, CLONE, None, 0)
    yield MOVE_MOUNT, (-100, here, -100, here, 0)


def trigger():
    libc, found = ctypes.CDLL(None, use_errno=True), []
    numbers = {"x86_64": X86_64, "aarch64": AARCH64}.get(os.uname().machine, {})
    for name, values in calls():
        number = numbers.get(name, name)
        if not isinstance(number, int):
            continue
        child = os.fork()
        if not child:
            wide = [ctypes.c_long(v) if isinstance(v, int) else v for v in values]
            os._exit(int(libc.syscall(number, *wide) >= 0))
        if os.waitpid(child, 0)[1]:
            found.append(str(name))
    return {"reached": len(found), "ran": " ".join(found)}
