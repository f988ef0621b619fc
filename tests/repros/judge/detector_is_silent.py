"""Would see no bug if there were one."""


def detector():
    return {"reached": 0}
