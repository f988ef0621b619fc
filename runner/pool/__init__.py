"""Warm starts: parents with torch imported, and a fork of one for each check.

`server` is a process per host (`python -m runner.pool`), `client` asks it, `start`
makes checks of it, `keeper` keeps it running. Standard library; needs the sandbox only.
"""
