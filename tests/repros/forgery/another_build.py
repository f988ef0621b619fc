"""Says hello again, as another build."""

import os
import sys


IDENTITY = {"slug": "9.9.9-cpu", "raw": "9.9.9", "git": "0" * 40}


def trigger():
    send = stolen_sender()
    send({"t": "hello", "identity": IDENTITY, "devices": [], "facts": {}})
    send(RESULT)
    send(END)
    os._exit(0)
