"""A table in a table."""


def trigger():
    return {"reached": 0, "more": {"reached": 1}}
