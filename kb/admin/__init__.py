"""Records in Django's admin: the form with both languages, its preview, the history;
and kept answers.

Django looks for registrations in this package, so they are imported here.
"""

from kb.admin import admin, shared

__all__ = ["admin", "shared"]
