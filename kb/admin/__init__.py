"""Records in Django's admin, to be looked at.

Django looks for registrations in this package, so they are imported here.
"""

from kb.admin import admin

__all__ = ["admin"]
