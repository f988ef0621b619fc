"""Becomes a program that is content with everything."""

import os


def trigger():
    os.execv("/bin/true", ["true"])
