"""Changes rights, owner, times and attributes of the build, to what they are."""

import importlib.util
import os
import sys
import sysconfig


def places():
    torch = importlib.util.find_spec("torch").origin
    yield torch
    yield os.path.dirname(torch)
    yield sysconfig.get_path("purelib")
    yield sysconfig.get_path("stdlib")
    yield sys.executable
    yield os.path.abspath(sys.modules["__main__"].__file__)  # the harness


def trigger():
    found = []
    for path in places():
        now = os.stat(path)
        times = (now.st_atime_ns, now.st_mtime_ns)
        for name, attempt in (
            ("chmod", lambda: os.chmod(path, now.st_mode & 0o7777)),
            ("chown", lambda: os.chown(path, now.st_uid, now.st_gid)),
            ("lchown", lambda: os.lchown(path, now.st_uid, -1)),
            ("utime", lambda: os.utime(path, ns=times)),
            ("setxattr", lambda: os.setxattr(path, "user.hostile", b"x")),
            ("removexattr", lambda: os.removexattr(path, "user.hostile")),
        ):
            try:
                attempt()
            except OSError:
                continue
            found.append("%s %s" % (name, path))
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
