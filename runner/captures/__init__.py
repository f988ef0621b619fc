"""Captures: one call as data, sent by a stranger, kept for a week and run on builds.

`keeping` takes, finds and deletes them, `queue` has their runs, `program` is what a
child runs, and `outcome` reads what it says. Nothing of it becomes evidence.
"""
