"""Pickles functions and classes of this file."""

import copy
import pickle


class Point:
    def __init__(self, x):
        self.x = x


def helper():
    return 3


def trigger():
    point, function = pickle.loads(pickle.dumps((Point(4), helper)))
    twin = copy.deepcopy(point)
    return {"reached": int(point.x + function() + twin.x != 11)}
