"""Returns the wire's own form of a number in place of a table."""


def trigger():
    return {"$float": "inf"}
