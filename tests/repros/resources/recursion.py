"""Recurses until Python stops it."""


def trigger():
    return trigger()
