"""Changes rights by descriptors, and by their names in /proc."""

import ctypes
import os
import sysconfig


EMPTY_PATH = 0x1000
NUMBERS = {"x86_64": (268, 452, 260), "aarch64": (53, 452, 54)}


def opened(path):
    for flags in (os.O_RDONLY, os.O_PATH, os.O_RDONLY | os.O_NOFOLLOW):
        try:
            yield os.open(path, flags)
        except OSError:
            continue


def attempts(libc, path, fd):
    mode, uid = os.fstat(fd).st_mode & 0o7777, os.fstat(fd).st_uid
    fchmodat, fchmodat2, fchownat = NUMBERS.get(os.uname().machine, (-1, -1, -1))
    yield lambda: os.fchmod(fd, mode)
    yield lambda: os.fchown(fd, uid, -1)
    yield lambda: os.utime(fd, ns=(0, os.fstat(fd).st_mtime_ns))
    yield lambda: os.setxattr(fd, "user.hostile", b"x")
    for name in ("/proc/self/fd/%d" % fd, "/proc/thread-self/fd/%d" % fd):
        yield lambda: os.chmod(name, mode)
        yield lambda: os.setxattr(name, "user.hostile", b"x")
    yield lambda: os.chmod("/proc/self/root" + path, mode)
    yield lambda: os.chmod("/proc/%d/cwd/%s%s" % (os.getpid(), "../" * 40, path), mode)
    yield lambda: libc.syscall(fchmodat, fd, b"", mode, EMPTY_PATH)
    yield lambda: libc.syscall(fchmodat2, fd, b"", mode, EMPTY_PATH)
    yield lambda: libc.syscall(fchownat, fd, b"", uid, -1, EMPTY_PATH)


def trigger():
    libc, found = ctypes.CDLL(None, use_errno=True), []
    library = sysconfig.get_path("purelib")
    for path in [*TARGETS.get("own_files", []), library]:
        for fd in opened(path):
            for number, attempt in enumerate(attempts(libc, path, fd)):
                try:
                    if attempt() == -1:
                        continue
                except OSError:
                    continue
                found.append("%d %s" % (number, path))
            os.close(fd)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
