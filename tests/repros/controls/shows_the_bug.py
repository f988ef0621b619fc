"""Shows the bug, so that the tests see that it can be shown."""


def trigger():
    print("reached")
    return {"reached": 3, "loss": [float("nan"), float("inf")]}
