"""Shows the bug where there is none."""

def control():
    return {"reached": 1}
