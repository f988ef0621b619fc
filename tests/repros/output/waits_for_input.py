"""Asks, and takes no answer for an error."""


def trigger():
    return {"reached": int(input("Continue? "))}
