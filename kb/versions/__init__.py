"""Torch versions: their order, ranges of them, and whether a build is affected.

`affected` joins what is documented with what was executed and says on which basis.
Pure functions; may import `models` and `environments`, nothing above.
"""
