"""Aborts."""

import os


def trigger():
    print("last words")
    os.abort()
