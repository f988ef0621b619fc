"""An integer that no database holds."""


def trigger():
    return {"reached": 2**63}
