"""Reports, and ends before it said so."""

import os
import sys


def trigger():
    stolen_sender()(RESULT)
    os._exit(0)
