"""Returns nothing."""


def trigger():
    return None
