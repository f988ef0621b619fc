"""Whether the database has the site's tables yet; commands say what to run if not."""

from __future__ import annotations

from django.core.management.base import CommandError
from django.db import connection
from django.utils.translation import gettext as _

from kb.models import Record


def require_tables(then: str = "") -> None:
    """Raise CommandError where `manage.py migrate` was never run.

    `then`: what to run behind it.
    """
    if Record._meta.db_table not in connection.introspection.table_names():
        said = _("The database has no tables yet. Run first: %s")
        raise CommandError(said % ", ".join(filter(None, ["manage.py migrate", then])))
