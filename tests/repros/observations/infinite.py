"""A metric beyond all numbers."""


def trigger():
    return {"reached": float("inf")}
