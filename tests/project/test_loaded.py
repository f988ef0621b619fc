"""Rows that were copied are those that were loaded."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from django.db import transaction
from django.test import TestCase

from kb.models import Claim, Record
from tests.support import loaded, runs


class CopyTest(TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shared = mock.patch.object(loaded, "folder", Path(folder.name))
        self.addCleanup(shared.stop)
        shared.start()
        self.load = mock.Mock(side_effect=runs.read_sample)

    def rows(self) -> loaded.Rows:
        """After the first call those of a load, then those of its copies."""
        loaded.copied("sample", self.load)
        states = [state._meta.db_table for state in loaded.STATES]
        return {name: r for name, r in loaded.read().items() if name not in states}

    def test_a_copy_is_what_was_loaded(self) -> None:
        with transaction.atomic():
            first = self.rows()
            transaction.set_rollback(True)
        self.assertFalse(Record.objects.exists())
        self.assertEqual(self.rows(), first)
        self.load.assert_called_once()
        claim = Claim.objects.earliest("pk")
        claim.pk, claim.cid = None, "another"
        claim.save()  # its number is free

    def test_where_there_are_rows_nothing_is_copied(self) -> None:
        self.rows()
        Record.objects.update(title_en="Edited")
        self.rows()
        self.assertEqual(self.load.call_count, 2)
        self.assertEqual(Record.objects.get().title_en, "Edited")
