"""An integer of 20,000 digits."""

import sys


def trigger():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    return {"reached": 10**20000}
