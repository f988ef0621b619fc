"""Reads from address zero."""

import ctypes


def trigger():
    return {"reached": ctypes.string_at(0)[0]}
