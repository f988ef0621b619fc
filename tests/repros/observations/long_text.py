"""A text of more than 4 kB, in characters of three bytes."""


def trigger():
    return {"reached": 0, "ran": "\u4e2d" * 1500}
