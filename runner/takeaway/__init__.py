"""Files that users take away: one repro, the doctor, or a kit, as a single file.

`bundle` puts reviewed sources, the harness and one of `programs` into it, unchanged and
under their digests.
"""
