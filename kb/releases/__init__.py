"""Releases of torch: what differs between two of them, and what one of them brought.

Everything is worked out of findings and of what records document; nothing is stored.
"""
