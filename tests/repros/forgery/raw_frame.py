"""Writes a frame by itself: two values for one name, numbers beyond all floats."""

import os
import sys


def stolen_secrets():
    """The descriptor and the nonce that the harness reports with."""
    frame = sys._getframe()
    while "send" not in frame.f_locals:
        frame = frame.f_back
    cells = [cell.cell_contents for cell in frame.f_locals["send"].__closure__]
    return tuple(next(c for c in cells if isinstance(c, kind)) for kind in (int, str))


def trigger():
    fd, nonce = stolen_secrets()
    text = (
        '{"n": "%s", "n": "%s", "t": "result", "check": "trigger", "trial": 0, '
        '"observations": {"reached": 1, "great": 1e999, "less": -1e999, "reached": 0}}\n'
        '{"n": "%s", "t": "end"}\n' % ("0" * 32, nonce, nonce)
    )
    os.write(fd, text.encode())
    os._exit(0)
