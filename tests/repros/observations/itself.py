"""A table that holds itself."""


def trigger():
    found = {"reached": 0}
    found["again"] = found
    return found
