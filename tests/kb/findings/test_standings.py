"""Standings follow records and findings, whichever of them changes."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, skipUnlessDBFeature

from kb.findings import standings
from kb.models import Flip, Record, Standing, TestedBuild
from kb.publishing import saving
from runner.evidence import store
from tests.support import runs


class StandingTest(TestCase):
    record: Record

    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()
        cls.repro = cls.record.repros.get()

    def run_on(self, raw: str, *, bug: bool, day: int = 1) -> None:
        moment = f"2026-01-{day:02d}T00:00:00Z"
        runs.run_on(self.repro, raw, bug=bug, started_at=moment)

    def standing(self) -> Standing:
        return Standing.objects.get(record="NAN-9001")

    def test_evidence_moves_claims_and_workarounds(self) -> None:
        before = self.standing()
        self.assertEqual((before.verified, before.documented), (0, 2))
        self.assertEqual(before.facets["workaround"], [])
        self.run_on("2.6.0", bug=True)
        after = self.standing()
        self.assertEqual((after.verified, after.documented), (1, 1))
        self.assertEqual(after.facets["workaround"], [standings.VERIFIED])
        self.assertEqual(after.facets["device"], ["cpu"])
        self.assertEqual(after.first_bad, "2.6.0-cpu")

    def test_a_flip_is_dated_by_the_later_of_its_verdicts(self) -> None:
        self.run_on("2.6.0", bug=True, day=9)
        self.assertFalse(Flip.objects.exists())
        self.run_on("2.7.0", bug=False, day=4)
        flip = Flip.objects.get()
        self.assertEqual((flip.before, flip.build), ("2.6.0-cpu", "2.7.0-cpu"))
        self.assertTrue(flip.is_good)
        self.assertEqual(flip.observed_at, datetime(2026, 1, 9, tzinfo=UTC))
        self.assertEqual(self.standing().first_good, "2.7.0-cpu")

    def test_another_edition_of_the_repro_takes_everything_back(self) -> None:
        self.run_on("2.6.0", bug=True)
        self.run_on("2.7.0", bug=False)
        self.repro.digest = f"sha256:{'0' * 64}"
        self.repro.source += "\nprint()\n"  # every check executes it
        self.repro.save()
        store.refresh_staleness(self.record)
        self.assertFalse(Flip.objects.exists() or TestedBuild.objects.exists())
        self.assertEqual(self.standing().verified, 0)

    def test_tested_builds_count_published_records(self) -> None:
        self.run_on("2.6.0", bug=True)
        found = TestedBuild.objects.get()
        self.assertEqual(
            (found.slug, found.records, found.judged), ("2.6.0-cpu", 1, True)
        )
        self.record.publication = "withdrawn"
        saving.save(self.record)
        self.assertFalse(Standing.objects.exists() or TestedBuild.objects.exists())
        self.record.publication = "published"
        saving.save(self.record)
        self.assertEqual(TestedBuild.objects.get().records, 1)

    def test_a_build_with_nothing_but_errors_is_not_judged(self) -> None:
        body = runs.make_evidence(self.repro, failure="timeout")
        store.add(body, origin="site")
        self.assertFalse(TestedBuild.objects.get().judged)

    def test_rows_of_an_older_site_are_computed_when_records_are_loaded(self) -> None:
        self.run_on("2.6.0", bug=True)
        Standing.objects.all().delete()
        TestedBuild.objects.all().delete()
        self.assertEqual(standings.bring_up_to_date(), 1)
        self.assertEqual(self.standing().verified, 1)
        self.assertEqual(TestedBuild.objects.get().records, 1)
        self.assertEqual(standings.bring_up_to_date(), 0)

    def test_what_an_older_release_did_not_count_is_counted_then(self) -> None:
        self.run_on("2.6.0", bug=True)
        Standing.objects.update(contradicted=None)
        self.assertEqual(standings.bring_up_to_date(), 1)
        self.assertEqual(self.standing().contradicted, 1)


@skipUnlessDBFeature("test_db_allows_multiple_connections")
class ConcurrentTest(TransactionTestCase):
    """Two workers end runs of one record at once."""

    def test_evidence_of_two_workers_counts_for_both(self) -> None:
        repro = runs.load_sample().repros.get()
        errors: list[Exception] = []

        def add(raw: str) -> None:
            runs.run_on(repro, raw)

        def other_worker() -> None:
            try:
                add("2.7.0")
            except Exception as error:  # noqa: BLE001 - asserted below
                errors.append(error)
            finally:
                connection.close()

        thread = threading.Thread(target=other_worker)
        with transaction.atomic():
            add("2.6.0")
            thread.start()
            while thread.is_alive() and not self.somebody_waits_for_us():
                thread.join(0.01)
        thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(TestedBuild.objects.count(), 2)
        self.assertEqual(Standing.objects.count(), 1)

    def somebody_waits_for_us(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE NOT granted"
                " AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            )
            (count,) = cursor.fetchone()
        return bool(count)
