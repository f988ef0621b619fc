"""Changes rights, owners, times and attributes by the numbers of the calls."""

import ctypes
import os
import sysconfig


HERE, LINK, EMPTY = -100, 0x100, 0x1000
X86_64 = {
    "chmod": 90, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "lchown": 94,
    "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
    "setxattr": 188, "lsetxattr": 189, "removexattr": 197, "setxattrat": 463,
    "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
AARCH64 = {
    "fchmodat": 53, "fchmodat2": 452, "fchownat": 54, "utimensat": 88, "setxattr": 5,
    "lsetxattr": 6, "removexattr": 14, "setxattrat": 463, "removexattrat": 466,
    "file_setattr": 469,
}  # fmt: skip


def calls(path, mode, uid):
    value = ctypes.create_string_buffer(b"x")
    # struct xattr_args: where the value is, its length, flags.
    tree = (ctypes.c_uint64 * 2)(ctypes.addressof(value), 1)
    flags = ctypes.create_string_buffer(24)  # struct file_attr, all zero
    name = b"user.hostile"
    yield "chmod", (path, mode)
    yield "fchmodat", (HERE, path, mode, 0)
    yield "fchmodat2", (HERE, path, mode, 0)
    yield "fchmodat2", (HERE, path, mode, LINK)
    yield "chown", (path, uid, -1)
    yield "lchown", (path, uid, -1)
    yield "fchownat", (HERE, path, uid, -1, LINK)
    for call in ("utime", "utimes"):
        yield call, (path, None)
    yield "futimesat", (HERE, path, None)
    yield "utimensat", (HERE, path, None, 0)
    yield "utimensat", (HERE, path, None, LINK)
    yield "setxattr", (path, name, value, 1, 0)
    yield "lsetxattr", (path, name, value, 1, 0)
    yield "setxattrat", (HERE, path, 0, name, tree, 16)
    yield "removexattr", (path, name)
    yield "removexattrat", (HERE, path, 0, name)
    yield "file_setattr", (HERE, path, flags, 24, 0)


def trigger():
    libc, found = ctypes.CDLL(None, use_errno=True), []
    numbers = {"x86_64": X86_64, "aarch64": AARCH64}.get(os.uname().machine, {})
    for path in [*TARGETS.get("own_files", []), sysconfig.get_path("purelib")]:
        try:
            now = os.stat(path)
        except OSError:
            continue
        for name, values in calls(path.encode(), now.st_mode & 0o7777, now.st_uid):
            wide = [ctypes.c_long(v) if isinstance(v, int) else v for v in values]
            if name in numbers and libc.syscall(numbers[name], *wide) == 0:
                found.append("%s %s" % (name, path))
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
