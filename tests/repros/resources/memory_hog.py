# memory_mib = 512
"""Takes memory for ever, up to 3 GiB."""

import time


def trigger():
    hoard = []
    for _ in range(48):
        hoard.append(b"\1" * (64 * 1024 * 1024))
        print(len(hoard) * 64, "MiB", flush=True)
    time.sleep(5)
    return {"reached": 1}
