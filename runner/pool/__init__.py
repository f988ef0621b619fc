"""Warm starts: parents with torch imported, and a fork of one for each check.

`server` is a process per host (`python -m runner.pool`), `client` talks to it, `start`
starts checks with it, `keeper` keeps it running. Standard library and the sandbox only.
"""
