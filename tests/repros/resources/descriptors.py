"""Opens files until it may not, at most 20,000, and still reports."""

import os


def trigger():
    held = []
    try:
        for _ in range(20000):
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        print("after", len(held), error)
    return {"reached": int(len(held) == 20000), "held": len(held)}
