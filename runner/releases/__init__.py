"""Watching the package indexes: what is new there, installed, run and removed again.

May import builds, runs and models, and is imported by commands and pages.
"""
