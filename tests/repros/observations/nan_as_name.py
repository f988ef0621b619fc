"""A name that is not a number, twice."""


def trigger():
    return {"reached": 0, float("nan"): 1, float("nan"): 2}
