"""Starts threads until it may not, at most 400."""

import threading


def trigger():
    threading.stack_size(64 * 1024)
    wait = threading.Event()
    started = 0
    try:
        for _ in range(400):
            threading.Thread(target=wait.wait, args=(60,), daemon=True).start()
            started += 1
    except RuntimeError as error:
        print("after", started, error)
    wait.set()
    return {"reached": int(started == 400), "started": started}
