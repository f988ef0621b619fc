"""Evidence: refused when it is not what it says, judged again, turned into findings."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.test import TestCase

from kb.findings import diagnoses
from kb.models import Finding, Record
from runner.evidence import findings, folders, store
from runner.evidence.store import EvidenceRefused
from runner.models import Build, Evidence
from tests.support import runs


class AddTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.body = runs.make_evidence(self.repro)

    def refused(self, **changes: Any) -> str:
        with self.assertRaises(EvidenceRefused) as caught:
            store.add(runs.signed({**self.body, **changes}), store.SITE)
        self.assertEqual(Evidence.objects.count() + Finding.objects.count(), 0)
        return str(caught.exception)

    def test_every_check_leaves_a_finding_and_the_trigger_the_verdict(self) -> None:
        store.add(self.body, store.SITE)
        rows = {row.check_name: row for row in Finding.objects.all()}
        self.assertEqual(
            {name: row.outcome for name, row in rows.items()},
            {
                "control": "clean",
                "detector": "bug",
                "trigger": "bug",
                "workaround_off": "clean",
                "refuted_hope": "bug",
            },
        )
        trigger = rows["trigger"]
        self.assertEqual(
            (trigger.verdict, trigger.hits, trigger.trials, trigger.stale),
            ("bug_present", 1, 1, False),
        )
        self.assertEqual((trigger.build, trigger.build_raw), (runs.SLUG, runs.STAND_IN))
        self.assertEqual(trigger.evidence, self.body["digest"])

    def test_the_build_becomes_known(self) -> None:
        store.add(self.body, store.SITE)
        build = Build.objects.get()
        self.assertEqual((build.slug, build.python), (runs.SLUG, "3.11"))

    def test_adding_it_twice_changes_nothing(self) -> None:
        first = store.add(self.body, store.SITE)
        self.assertEqual(store.add(self.body, "other"), first)
        self.assertEqual(Evidence.objects.get().origin, store.SITE)

    def test_a_changed_byte_is_refused(self) -> None:
        self.body["checks"][1]["observations"]["grad"] = 2.0
        with self.assertRaisesMessage(EvidenceRefused, "does not match its digest"):
            store.add(self.body, store.SITE)

    def test_a_verdict_its_checks_do_not_give_is_refused(self) -> None:
        self.assertIn("verdict", self.refused(verdict="bug_absent"))
        self.assertIn("hits", self.refused(hits=7))
        self.assertIn("workarounds", self.refused(workarounds={"off": "untested"}))
        clean = [dict(row) for row in self.body["checks"]]
        for row in clean:
            if row["name"] == "detector":
                row["observations"] = {"nonfinite": 0}
        self.assertIn("verdict", self.refused(checks=clean))

    def test_foreign_objects_are_refused(self) -> None:
        self.assertIn("schema", self.refused(schema="doesitnan.evidence/2"))
        self.assertIn("no verdict", self.refused(state="running"))
        self.assertIn("no torch build", self.refused(build={"slug": None, "raw": None}))
        self.assertIn(
            "no torch build", self.refused(build={"slug": "../x", "raw": "x"})
        )
        self.assertIn("not an evidence", self.refused(checks=[{}]))
        self.assertIn("not an evidence", self.refused(repro=None))
        self.assertIn("not an evidence", self.refused(started_at="yesterday"))
        self.assertIn("NAN-9001 repro", self.refused(record="NAN-9002"))

    def test_what_a_database_cannot_keep_is_refused(self) -> None:
        for value in (float("nan"), float("inf"), "a\x00b", {"\x00": 1}, ["\x00"]):
            with self.subTest(repr(value)):
                self.refused(telemetry={"driver": value})

    def test_a_slug_keeps_meaning_one_build(self) -> None:
        runs.make_build(raw="9.9.0a0+git")
        runs.install("python")
        with self.assertRaisesMessage(EvidenceRefused, "9.9.0a0+git"):
            store.add(self.body, store.SITE)

    def test_evidence_of_an_unknown_repro_is_kept_and_is_stale(self) -> None:
        self.repro.delete()
        store.add(self.body, store.SITE)
        self.assertTrue(all(row.stale for row in Finding.objects.all()))

    def test_an_unknown_record_leaves_no_findings(self) -> None:
        self.repro.record.delete()
        self.assertIsNone(store.add(self.body, store.SITE).record)
        self.assertEqual(Finding.objects.count(), 0)


class FindingsTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()

    def add(self, year: int, *, bug: bool) -> None:
        body = runs.make_evidence(
            self.repro, bug=bug, started_at=f"{year}-01-01T00:00:00Z"
        )
        store.add(body, store.SITE)

    def trigger(self) -> Finding:
        return Finding.objects.triggers().get()

    def test_newer_evidence_wins_whatever_the_order(self) -> None:
        self.add(2026, bug=True)
        self.add(2025, bug=False)
        self.assertEqual(self.trigger().verdict, "bug_present")
        self.add(2027, bug=False)
        self.assertEqual(self.trigger().verdict, "bug_absent")

    def test_a_failed_run_takes_no_verdict_away(self) -> None:
        failed = runs.make_evidence(
            self.repro, failure="timeout", started_at="2027-01-01T00:00:00Z"
        )
        store.add(failed, store.SITE)
        self.assertEqual(self.trigger().verdict_reason, "timeout")
        self.add(2026, bug=True)
        self.assertEqual(self.trigger().verdict, "bug_present")
        later = {**failed, "started_at": "2028-01-01T00:00:00Z"}
        store.add(runs.signed(later), store.SITE)
        self.assertEqual(self.trigger().verdict, "bug_present")

    def test_a_run_that_never_reached_the_trigger_has_its_row(self) -> None:
        self.repro = runs.make_repro(runs.source(device="cuda"))
        store.add(runs.make_evidence(self.repro), store.SITE)
        row = self.trigger()
        self.assertEqual(
            (row.verdict, row.verdict_reason, row.outcome, row.trials),
            ("not_applicable", "device", "", 0),
        )
        # It ran without a device, so it says nothing of that build on a GPU.
        self.assertEqual(row.device_class, "cpu")

    def test_one_trial_with_the_bug_is_enough_against_a_workaround(self) -> None:
        for trials, outcome in (
            ("clean clean", "clean"),
            ("clean bug", "bug"),
            ("error bug", "bug"),
            ("clean error", "error"),
        ):
            rows = [
                {"name": "workaround_off", "outcome": one, "reason": None}
                for one in trials.split()
            ]
            with self.subTest(trials):
                self.assertEqual(findings.combined(rows), (outcome, ""))

    def test_a_changed_repro_makes_its_findings_stale_and_back(self) -> None:
        self.add(2026, bug=True)
        old = self.repro.source
        self.repro = runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        store.refresh_staleness(self.repro.record)
        self.assertTrue(self.trigger().stale)
        self.add(2025, bug=False)
        fresh = self.trigger()
        self.assertEqual((fresh.verdict, fresh.stale), ("bug_absent", False))
        runs.make_repro(old)
        store.refresh_staleness(self.repro.record)
        again = self.trigger()
        self.assertEqual((again.verdict, again.stale), ("bug_present", False))


class DiagnosisTest(TestCase):
    """Code that tells a bug is shown where it was true with it and false without."""

    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.record = self.repro.record
        self.record.diagnoses = [{"name": "it", "text": {}, "code": "..."}]

    def shown(self) -> list[str]:
        rows = diagnoses.of_record(self.record, Finding.objects.all())
        return [row["evidence"] for row in rows]

    def add(self, control: bool, trigger: bool, **options: Any) -> Evidence:
        diagnosed = (control, trigger)
        body = runs.make_evidence(self.repro, diagnosed=diagnosed, **options)
        return store.add(body, store.SITE)

    def test_it_is_shown_with_the_evidence_that_told_the_bug(self) -> None:
        self.assertEqual(self.shown(), [])
        evidence = self.add(False, True)
        self.assertEqual(self.shown(), [evidence.digest])

    def test_it_is_not_shown_where_it_says_the_same_of_both(self) -> None:
        for control, trigger in ((True, True), (False, False), (True, False)):
            with self.subTest(control=control, trigger=trigger):
                self.add(control, trigger)
                self.assertEqual(self.shown(), [])

    def test_a_run_without_the_bug_decides_nothing(self) -> None:
        self.add(False, True, bug=False)
        self.assertEqual(self.shown(), [])

    def test_what_an_older_repro_told_is_not_shown(self) -> None:
        self.add(False, True)
        runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        store.refresh_staleness(Record.objects.get(pk=self.record.pk))
        self.assertEqual(self.shown(), [])


class LoadTest(TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.repro = runs.make_repro()
        self.body = runs.make_evidence(self.repro)

    def write(self, name: str, text: str, slug: str = "sample-9001") -> None:
        path = self.root / slug / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_files_are_added_once_and_refusals_stop_no_other(self) -> None:
        self.write("a.json", "{")
        self.write("b.json", json.dumps(self.body))
        self.write("c.json", "[" * 100_000)
        self.write("d.json", json.dumps(self.body), slug="unheard-of")
        report = folders.load_evidence(self.root)
        self.assertEqual(report.added, ["sample-9001/evidence/b.json"])
        refused = dict(report.refused)
        self.assertIn("no end", refused["sample-9001/evidence/a.json"])
        self.assertIn("load_records", refused["unheard-of/evidence/d.json"])
        self.assertEqual(len(refused), 3)
        self.assertEqual(len(folders.load_evidence(self.root).known), 1)

    def test_evidence_lies_in_its_own_record_s_folder(self) -> None:
        runs.make_record("NAN-9002")
        self.write("a.json", json.dumps(self.body), slug="sample-9002")
        ((_, reason),) = folders.load_evidence(self.root).refused
        self.assertIn("NAN-9001, not NAN-9002", reason)

    def test_the_command_fails_when_a_file_was_refused(self) -> None:
        self.write("b.json", json.dumps(self.body))
        call_command("load_evidence", self.root, verbosity=0)
        self.write("c.json", "[]")
        with self.assertRaises(SystemExit) as caught:
            call_command("load_evidence", self.root)
        self.assertEqual(caught.exception.code, 1)
