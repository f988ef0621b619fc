"""A requirement that ends the process."""

import os


def requires():
    os._exit(0)
