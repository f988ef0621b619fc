import os


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    return {"reached": 0}
