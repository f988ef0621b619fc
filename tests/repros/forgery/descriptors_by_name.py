"""Opens its streams and channels anew by /proc, and its parent's, and writes there."""

import os


def is_spared(pid):
    """Whether this is the process that asked, or one above it; numbers repeat."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            started = file.read().rpartition(") ")[2].split()[19]
    except OSError:
        return True
    return not TARGETS or [pid, started] in TARGETS["spared"]


LINE = b'{"t": "end"}\n'


def trigger():
    pids = ["self"]
    if not is_spared(os.getppid()):
        pids.append(str(os.getppid()))
    for pid in pids:
        for fd in range(1024):
            path = "/proc/%s/fd/%d" % (pid, fd)
            try:
                target = os.readlink(path)
                if pid == "self" and fd < 3 or not target.startswith("pipe"):
                    continue
                handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                os.write(handle, LINE)
                os.close(handle)
            except OSError:
                continue
    return {"reached": 0}
