"""Raises while it is imported."""


raise RuntimeError("not today")
