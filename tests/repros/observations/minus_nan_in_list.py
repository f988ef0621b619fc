"""A list with everything that is not finite."""


def trigger():
    return {"reached": 0, "loss": [float("nan"), float("inf"), -float("inf"), -0.0]}
