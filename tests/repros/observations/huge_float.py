"""The greatest and the least number there is."""


def trigger():
    return {"reached": 0, "great": 1.7976931348623157e308, "least": 5e-324}
