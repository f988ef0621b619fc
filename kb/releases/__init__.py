"""Releases of torch: what differs between two, how many bugs are open on each.

Everything is worked out of findings and of what records document; nothing is stored.
"""
