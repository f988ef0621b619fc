"""1,001 numbers."""


def trigger():
    return {"reached": 0, "loss": [0.5] * 1001}
