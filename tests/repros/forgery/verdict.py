"""Sends a verdict of its own."""

import sys


def trigger():
    stolen_sender()({"t": "verdict", "verdict": "bug_absent", "is_affected": False})
    return {"reached": 1}
