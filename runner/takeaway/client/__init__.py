"""The client `doesitnan`, as it is installed: what `takeaway.wheel` makes a wheel of.

Runs under the user's Python: standard library, syntax of Python 3.8. In the wheel it
has more neighbours: `pipe` (portable/doesitnan.py), `nan_probe` (portable/), `version`,
and `carried.json`, the files that a site serves: doctor, linter, every repro.
"""
