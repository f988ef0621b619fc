"""Looks for a terminal to type into."""

import fcntl
import os
import termios


def trigger():
    found = ["descriptor %d" % fd for fd in range(1024) if os.isatty(fd)]
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
        found.append("/dev/tty")
    except OSError:
        pass
    for fd in range(3):
        try:
            fcntl.ioctl(fd, termios.TIOCSTI, b"\n")
            found.append("TIOCSTI %d" % fd)
        except OSError:
            continue
    return {"reached": len(found), "ran": ", ".join(found)}
