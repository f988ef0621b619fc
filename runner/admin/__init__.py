"""Builds, workers, jobs, evidence and tokens in Django's admin.

Django looks for registrations in this package, so they are imported here.
"""

from runner.admin import admin

__all__ = ["admin"]
