"""A number under a name that is reserved for a text."""


def trigger():
    return {"reached": 0, "device": 7}
