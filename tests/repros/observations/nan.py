"""A metric that is not a number."""


def trigger():
    return {"reached": float("nan")}
