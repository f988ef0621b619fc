"""Raises what a keyboard raises."""


def trigger():
    raise KeyboardInterrupt
