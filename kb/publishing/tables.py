"""Whether the database has the site's tables yet; commands say what to run if not."""

from __future__ import annotations

from django.db import connection
from django.utils.translation import gettext as _

from kb.models import Record


class NoTables(Exception):
    """The database has no tables; the text is one line that says what to run."""


def require_tables() -> None:
    """Raise NoTables where `manage.py migrate` was never run."""
    if Record._meta.db_table not in connection.introspection.table_names():
        raise NoTables(
            _("The database has no tables yet. Run first: %s") % "manage.py migrate"
        )
