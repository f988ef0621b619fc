"""Torch builds on this host: found, installed, probed, listed, removed.

`registry` keeps Build and Installation in step with what lies on the disk; `probe` and
`features` ask an interpreter under its own Python. torch is never imported here.
"""
