"""Measures against a reference that is no number."""


def reference():
    return {"loss": float("inf")}
