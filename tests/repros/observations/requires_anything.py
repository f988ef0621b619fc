"""A requirement that is answered by a number."""


def requires():
    return 7
