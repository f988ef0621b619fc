"""Sweeps on pages: the form that asks for one, its page, the maps of a record."""
