"""Frames whose fields are of other types than a reader expects."""

import os
import sys


def trigger():
    send = stolen_sender()
    send({"t": "raised", "type": ["ImportError"], "text": {"a": None}, "check": []})
    send({"t": "end", "extra": 1})
    os._exit(0)
