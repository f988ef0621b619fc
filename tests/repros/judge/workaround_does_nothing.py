# match = {loss = 1e-6}
"""A workaround that avoids the bug by doing nothing."""

def control():
    return {"reached": 0, "loss": 1.0}


def trigger():
    return {"reached": 1, "loss": 1.0}


def workaround_nothing():
    return {}


def workaround_other_result():
    return {"reached": 0, "loss": 2.0}
