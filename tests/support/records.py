"""Many records at once, as `kb.publishing.saving` saves one."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.test import TestCase

from kb.findings import standings
from kb.models import Record
from kb.search.index import writer
from tests.support import loaded


class FirstRecords(TestCase):
    """Of what no record knew when a test was written a later one may know."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.first_records()


def save_all(records: Iterable[Record]) -> list[Record]:
    """Insert new records, their places in the search index, and their standings."""
    with transaction.atomic():
        rows = Record.objects.bulk_create(records)
        writer.write(rows)
        standings.write([row.pk for row in rows])
    return rows
