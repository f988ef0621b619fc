"""A truth where the predicate wants a number."""


def trigger():
    return {"reached": False}
