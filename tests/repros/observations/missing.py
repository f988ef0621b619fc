"""All but what the predicate reads."""


def trigger():
    return {"arrived": 0}
