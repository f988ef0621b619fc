"""Walks out of its root by every descriptor that is a folder."""

import os


def trigger():
    found = []
    wanted = TARGETS.get("readable", "/nonexistent").lstrip("/")
    for fd in range(1024):
        try:
            at = os.open("../" * 64 + wanted, os.O_RDONLY, dir_fd=fd)
        except OSError:
            continue
        os.close(at)
        found.append(str(fd))
    for link in ("root", "cwd"):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                os.close(os.open("/proc/%s/%s/%s" % (pid, link, wanted), os.O_RDONLY))
            except OSError:
                continue
            found.append("/proc/%s/%s" % (pid, link))
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
