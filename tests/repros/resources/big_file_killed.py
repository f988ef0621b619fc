"""One file of 600 MiB, and the signal for it as a C program gets it."""

import signal


def trigger():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with open("big", "wb") as file:
        file.truncate(600 * 1024 * 1024)
    return {"reached": 1}
