"""Builds, workers, runs, evidence and tokens in Django's admin.

Django looks for registrations in this package, so they are imported here.
"""

from runner.admin import admin, column_names, tokens

__all__ = ["admin", "column_names", "tokens"]
