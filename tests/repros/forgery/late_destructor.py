"""An object that writes to every descriptor when it is deleted."""

import os


class Late(dict):
    def __del__(self):
        for fd in range(3, 1024):
            try:
                os.write(fd, b"too late\n")
            except OSError:
                continue


def trigger():
    return Late(reached=0)
