"""Builds, workers, jobs, evidence, tokens and webhooks in Django's admin.

Django looks for registrations in this package, so they are imported here.
"""

from runner.admin import admin, column_names, long_jobs, telling, tokens

__all__ = ["admin", "column_names", "long_jobs", "telling", "tokens"]
