# memory_mib = 512
"""A table whose items are always new ones."""

import itertools


class Endless(dict):
    def items(self):
        return (("x%d" % number, str(number) * 1000) for number in itertools.count())


def trigger():
    return Endless()
