"""Files that users take away: one repro, or the doctor, as a single Python file.

`bundle` puts reviewed sources, the harness and one of `programs` into it, unchanged and
under their digests.
"""
