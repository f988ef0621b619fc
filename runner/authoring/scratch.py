"""A database of its own in memory, for questions about records that are only files.

So the check of a record needs no tables, changes nothing of the site, and answers the
same whatever the site has loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper

from kb.choices import Publication
from kb.models import Record
from kb.publishing.explained import store_symptoms
from kb.publishing.loading import known_names
from kb.publishing.rows import apply
from kb.records.files import RecordError, RecordFile
from kb.records.rendering import sections_html
from kb.records.symptoms import read_symptoms
from runner.evidence.repros import inspect


@contextmanager
def scratch_database() -> Iterator[None]:
    """Within it, the site's database is an empty one with all tables."""
    site = connections[DEFAULT_DB_ALIAS]
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {}}
    scratch = DatabaseWrapper({**site.settings_dict, **own}, DEFAULT_DB_ALIAS)
    connections[DEFAULT_DB_ALIAS] = scratch
    ContentType.objects.clear_cache()
    try:
        call_command("migrate", verbosity=0, interactive=False)
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = site
        ContentType.objects.clear_cache()
        # `close` keeps a database in memory alive.
        if scratch.connection is not None:
            scratch.connection.close()


def publish(root: Path, files: Iterable[RecordFile], rendered: str) -> None:
    """Store records as published ones; HTML is made of the one that is named.

    The symptoms beside `root` are stored too: they answer logs without a signature.
    """
    with transaction.atomic():
        for file in files:
            html = sections_html(file) if file.id == rendered else {}
            facts = {**file.facts, "publication": Publication.PUBLISHED.value}
            facts.pop("withdrawn_because", None)
            repros = {name: inspect(text) for name, text in file.repros.items()}
            apply(replace(file, facts=facts), repros, Record(id=file.id), dict(html))
        with suppress(RecordError):  # a problem there is not the record's
            store_symptoms(read_symptoms(root, known_names([])) or [])
