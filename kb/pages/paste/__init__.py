"""A paste as a form brings it, and its parts as a page shows them.

Imports what look-ups import; only the look-up page uses it.
"""
