"""Reads its own environment and that of every process."""

import os
import re


PATTERN = re.compile(b"plan" + b"ted-[0-9a-f]{8}")


def trigger():
    found = set()
    for pid in os.listdir("/proc"):
        for name in ("environ", "cmdline"):
            try:
                with open("/proc/%s/%s" % (pid, name), "rb") as file:
                    found.update(PATTERN.findall(file.read()))
            except OSError:
                continue
    found.update(PATTERN.findall(repr(dict(os.environ)).encode()))
    names = " ".join(sorted(os.environ))
    print(names)
    return {"reached": len(found), "ran": b" ".join(found).decode()}
