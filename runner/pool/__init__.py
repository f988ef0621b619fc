"""Warm starts: parents with torch imported, and a fork of one for each check.

`server` is a process per host (`python -m runner.pool`) that keeps `parents`, whose
processes are `boxes`; `memory` says what they take. `client` talks to it, `start`
starts checks with it, `keeper` keeps it running. Standard library and the sandbox only.
"""
