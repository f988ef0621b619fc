"""A text where the predicate wants a number."""


def trigger():
    return {"reached": "0"}
