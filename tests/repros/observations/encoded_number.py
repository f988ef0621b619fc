"""Writes the wire's own form of a number, by hand."""


def trigger():
    return {"reached": {"$float": "nan"}, "more": {"$float": "0"}}
