"""Reads all of its own memory for what a parent left there."""

import re


PATTERN = re.compile(b"plan" + b"ted-[0-9a-f]{8}")


def trigger():
    found = set()
    with open("/proc/self/maps") as file:
        maps = [line.split() for line in file]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for span, rights, *_ in maps:
            begin, end = (int(part, 16) for part in span.split("-"))
            if "rw" not in rights or end - begin > 256 * 1024 * 1024:
                continue
            try:
                memory.seek(begin)
                found.update(PATTERN.findall(memory.read(end - begin)))
            except (OSError, OverflowError):
                continue
    return {"reached": len(found), "ran": b" ".join(found).decode()}
