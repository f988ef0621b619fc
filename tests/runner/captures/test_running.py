"""A capture through a slot of a worker, under a real torch and in the sandbox."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import (
    TestCase,
    TransactionTestCase,
    override_settings,
    tag,
)
from django.utils import timezone

from kb.models import Finding, Record
from portable import harness
from portable.nan_probe.known import RECORDS
from runner.builds import registry
from runner.captures import keeping, matrix, outcome, queue
from runner.models import (
    Build,
    Capture,
    CaptureRun,
    Evidence,
    Installation,
    Run,
    Worker,
)
from runner.pool import client
from runner.runs import ledger
from runner.worker import capturing, drain
from runner.worker.capturing import HEADER
from tests.support import captures, runs
from tests.support.builds import torch_python
from tests.support.captures import QUEUES

# Each test has a database of its own; the build is the same.
PROBE = cache(registry.probe)


# The lease is renewed by a connection of its own, which sees what is committed.
class RunTest(TransactionTestCase):
    def setUp(self) -> None:
        with mock.patch.object(registry, "probe", PROBE):
            self.installed = registry.add_python(Path(torch_python()))
        self.build = self.installed.build
        captures.worker(queues=[f"{self.build.slug}.cpu"])

    def run_of(self, *call: Any, **changes: Any) -> CaptureRun:
        text = captures.text(*call, **changes)
        capture = keeping.keep(text, [self.build], "user:1")
        # No warm parent is asked, whether there is one or not.
        with mock.patch.object(client, "request_child", side_effect=AssertionError):
            self.assertEqual(drain.drain("w1"), 1)
        return capture.runs.get()

    def test_what_is_not_finite_is_told_with_class_and_what_heals_it(self) -> None:
        run = self.run_of()
        self.assertEqual((run.state, run.outcome), ("finished", "nan"), run.reason)
        self.assertEqual(run.found["class"], "mathematics")
        self.assertEqual(run.found["law"], "log of a negative number")
        heals = run.found["heals"]
        self.assertTrue(any("clamp_min" in form for form in heals), heals)
        page = self.client.get(run.capture.get_absolute_url())
        self.assertContains(page, "NaN on 1 of 1 build")
        self.assertContains(page, "Mathematics")
        self.assertContains(page, "clamp_min")
        # It is about a call: nothing of it is evidence, a finding or a run.
        for kind in (Evidence, Finding, Run):
            self.assertFalse(kind.objects.exists())
        # In other types and by arithmetic; in the reader's language; as one posts it.
        ways = {"float64": "nan", "bfloat16": "nan", "reference": "nan"}
        self.assertEqual(run.found["ways"], {**ways, "repeats": "same"})
        self.assertContains(page, "1 of 1 number is not finite.")
        address = run.capture.get_absolute_url().replace("/en/", "/zh/")
        self.assertContains(self.client.get(address), "1 个数中有 1 个不是有限值。")
        self.assertContains(self.client.get(f"{address}github.md"), "| NaN |")

    def test_the_healed_call_is_finite(self) -> None:
        run = self.run_of("torch.log", captures.tensor(1e-30))
        self.assertEqual((run.outcome, run.found["nan"]), ("finite", 0))
        page = self.client.get(run.capture.get_absolute_url())
        self.assertContains(page, "Finite on 1 of 1 build")

    @tag("any_database")
    def test_backward_infinite_and_absent(self) -> None:
        zero, one = captures.tensor(0.0), captures.tensor(1.0)
        run = self.run_of("torch.sqrt", zero, gradient=one)
        self.assertEqual(run.outcome, "inf")
        self.assertNotContains(self.client.get(run.capture.get_absolute_url()), "✖ NaN")

    def test_no_numbers_come_back(self) -> None:
        run = self.run_of("torch.log", captures.tensor(-1234.5))
        self.assertNotIn("1234", str(run.found))
        names = {"total", "nan", "inf", "digest", "said", "law", "class"}
        self.assertLessEqual(
            run.found.keys(), names | {"heals", "does_not_heal", "ways"}
        )

    @tag("any_database")
    def test_an_equal_slice_names_the_record_and_runs_its_diagnosis(self) -> None:
        record = runs.make_record("NAN-0016")
        code = "def diagnose_equal_points(x):\n    return bool((x == 0).any())\n"
        row = {"name": "equal_points", "code": code, "text": {"en": "?", "zh": "?"}}
        Record.objects.filter(pk=record.pk).update(diagnoses=[row])
        text, law = RECORDS[record.pk]
        one = captures.tensor(1.0)
        for number, said in ((0.0, "is True for the"), (1.0, "is False for the")):
            with self.subTest(said):
                zero = captures.tensor(number)
                run = self.run_of("torch.sqrt", zero, gradient=one, slice=text)
                self.assertEqual(run.found["is_theirs"], number == 0)
                address = run.capture.get_absolute_url()
                self.assertContains(self.client.get(address), "NAN-0016 A sample")
                self.assertContains(self.client.get(address), said)
                answer = self.client.get(f"/api/v1/captures/{run.capture.pk}")
                self.assertEqual(answer.json()["record"], record.pk)
        # Of the same law, by another way: nothing is claimed, and nothing asked.
        other = self.run_of("torch.sqrt", zero, gradient=one, law=law)
        self.assertNotIn("is_theirs", other.found)
        page = self.client.get(other.capture.get_absolute_url())
        self.assertNotContains(page, "NAN-0016")


class QueueTest(TestCase):
    def setUp(self) -> None:
        runs.install("/nowhere/python")
        self.worker = captures.worker(protocol=harness.PROTOCOL)
        self.build = Build.objects.get(slug=runs.SLUG)

    def keep(self, requester: str = "user:1", **changes: Any) -> CaptureRun:
        text = captures.text(**changes)
        return keeping.keep(text, [self.build], requester).runs.get()

    def claim(self) -> CaptureRun | None:
        return queue.claim(QUEUES, "w1")

    def lapse(self) -> dict[str, int]:
        past = timezone.now() - timedelta(hours=1)
        CaptureRun.objects.filter(state="running").update(lease_until=past)
        return queue.reap()

    def test_a_click_goes_first(self) -> None:
        self.keep()
        click = runs.make_run()
        self.assertIsNone(self.claim())
        Run.objects.filter(pk=click.pk).update(priority=Run.Priority.MATRIX)
        self.assertIsNotNone(self.claim())

    def test_the_last_slot_is_left_to_clicks(self) -> None:
        for law in ("0 / 0", "inf - inf"):
            self.keep(law=law)
        self.assertIsNotNone(self.claim())
        self.assertIsNone(self.claim())

    def test_slots_of_a_worker_claim_one_after_another(self) -> None:
        """Else each of several that wake at once sees the last slot free."""
        asked = []

        def claim(queues: list[str], worker: str) -> None:
            asked.append(drain.claiming.locked())

        with (
            mock.patch.object(queue, "claim", claim),
            mock.patch.object(ledger, "claim", claim),
        ):
            self.assertFalse(drain.next_one("w1"))
        self.assertEqual(asked, [True, True])
        self.assertFalse(drain.claiming.locked())

    def test_one_requester_has_no_more_at_once_than_of_runs(self) -> None:
        Worker.objects.update(slots=9)
        for law in ("0 / 0", "inf - inf"):
            self.keep(law=law)
        with override_settings(RUNNING_PER_REQUESTER=1):
            self.assertIsNotNone(self.claim())
            self.assertIsNone(self.claim())
            self.keep(requester="user:2")
            self.assertEqual(self.claim().requester, "user:2")

    def test_a_weak_worker_takes_none(self) -> None:
        self.keep()
        for tier in ("C", "D", "E", ""):
            Worker.objects.update(tier=tier)
            self.assertIsNone(self.claim(), tier)

    def test_a_lost_one_starts_again_and_ends_at_the_third(self) -> None:
        run = self.keep()
        for left in (2, 1):
            held = self.claim()
            self.assertEqual(self.lapse()["requeued"], 1, left)
            self.assertFalse(queue.finish(held, "nan"), "its lease is another's")
        self.claim()
        self.assertEqual(self.lapse()["lost"], 1)
        run.refresh_from_db()
        self.assertEqual((run.outcome, run.reason), ("error", "lost"))
        page = self.client.get(run.capture.get_absolute_url())
        self.assertContains(page, "the worker stopped responding")

    def test_the_build_goes_away(self) -> None:
        run = self.keep()
        Worker.objects.all().delete()
        Installation.objects.all().delete()
        queue.reap()
        run.refresh_from_db()
        self.assertEqual((run.outcome, run.reason), ("error", "build_missing"))

    def test_a_disk_that_takes_nothing_is_no_lost_worker(self) -> None:
        run = self.keep()
        full = mock.patch.object(tempfile, "tempdir", "/nowhere/at/all")
        here = mock.patch.object(registry, "installation_for")
        with full, here, self.assertLogs("runner.worker.capturing", "ERROR"):
            self.assertTrue(capturing.execute(self.claim()))
        run.refresh_from_db()
        self.assertEqual((run.outcome, run.reason), ("error", "refused"))

    def test_deleted_in_between_it_is_not_run(self) -> None:
        run = self.keep()
        held = self.claim()
        keeping.delete(run.capture)
        held.refresh_from_db()
        with mock.patch.object(registry, "installation_for", return_value=True):
            capturing.execute(held)
        held.refresh_from_db()
        self.assertEqual((held.state, held.outcome), ("cancelled", ""))


class ChildTest(TestCase):
    """What a child says is a stranger's word."""

    def shown(self, status: int = 1, failure: str = "", **said: Any) -> outcome.Shown:
        if failure:
            return outcome.shown_by(HEADER, harness.Report(failure=failure))
        answer = json.dumps({"torch": "2.13.0", "status": status, **said})
        found = {"status": status, "answer": answer}
        message = {"t": "result", "check": "trigger", "trial": 0, "observations": found}
        hello = {"identity": {"slug": runs.SLUG}}
        return outcome.shown_by(HEADER, harness.Report([message], hello))

    def test_each_status_has_its_word(self) -> None:
        self.assertEqual(self.shown(1, nan=2, total=2).outcome, "nan")
        self.assertEqual(self.shown(1, inf=2, nan=0).outcome, "inf")
        self.assertEqual(self.shown(0, total=2).outcome, "finite")
        absent = self.shown(
            125, said="torch 1.13.1 has no torch.nn.functional.rms_norm"
        )
        self.assertEqual(absent.outcome, "not_applicable")
        self.assertIn("rms_norm", absent.found["said"])
        told = self.shown(2, said="it raised")
        self.assertEqual((told.outcome, told.reason), ("error", "raised"))

    def test_what_died_is_told_as_it_died(self) -> None:
        for failure in ("crash:SIGSEGV", "timeout", "limit:memory", "refused"):
            shown = self.shown(failure=failure)
            self.assertEqual((shown.outcome, shown.reason), ("error", failure))

    def test_forged_words_are_no_outcome(self) -> None:
        for said in (
            {"nan": 1, "law": "x" * 5000},
            {"nan": 1, "law": "\0"},
            {"nan": 1, "heals": ["\ud800"]},
            {"nan": -1, "inf": 1},
            {"nan": True},
            {"nan": 1, "class": "proved by us"},
            {"nan": 1, "heals": ["x"] * 99},
            {"nan": 1, "heals": [{"a": 1}]},
            {"nan": 1, "heals": 7},
            {"nan": 0, "inf": 0},
        ):
            with self.subTest(str(said)[:60]):
                self.assertEqual(self.shown(1, **said).outcome, "error")
        self.assertNotIn("more", self.shown(1, nan=1, more="x").found)

    def test_a_sandbox_that_turned_out_weak_runs_nothing(self) -> None:
        with mock.patch.object(capturing, "letter", return_value="C"):
            capture = Capture(text=captures.text())
            shown = capturing.shown_here(
                capture, runs.SLUG, sys.executable, mock.Mock()
            )
        self.assertEqual((shown.outcome, shown.reason), ("error", "refused"))


class MatrixTest(TestCase):
    def test_it_says_where_it_turns(self) -> None:
        capture = Capture.objects.create(digest="d", text=captures.text())
        shown = {
            "2.1.0": "finite",
            "2.10.0": "finite",
            "2.4.0": "nan",
            "2.2.0": "error",
        }
        for version, found in shown.items():
            build = runs.make_build(f"{version}-cpu", f"{version}+cpu")
            capture.runs.create(
                **{"build": build, "device": "cpu", "protocol": 0},
                **{"state": "finished", "outcome": found},
            )
        rows = matrix.runs_of(capture)
        self.assertEqual(matrix.first(rows, bad=True).build_id, "2.4.0-cpu")
        self.assertEqual(matrix.first(rows, bad=False).build_id, "2.10.0-cpu")
        page = self.client.get(capture.get_absolute_url())
        self.assertContains(page, "First bad: 2.4.0 (NaN); 2.1.0 was finite.")
        self.assertContains(page, "First good: 2.10.0 (Finite); 2.4.0 was not finite.")
        self.assertContains(page, "NaN on 1 of 3 builds")

    def test_a_build_that_lacks_the_function_is_told_in_both_languages(self) -> None:
        capture = Capture.objects.create(digest="d", text=captures.text())
        for version in ("1.13.1", "2.0.1"):
            build = runs.make_build(f"{version}-cpu", f"{version}+cpu")
            capture.runs.create(
                **{"build": build, "device": "cpu", "protocol": 0, "state": "finished"},
                outcome="not_applicable",
                found={"said": f"torch {version} has no torch.nn.functional.rms_norm"},
            )
        address = capture.get_absolute_url()
        for lang, said in (("en", "This build has no "), ("zh", "这个构建没有 ")):
            page = self.client.get(address.replace("/en/", f"/{lang}/"))
            # Once for both.
            self.assertContains(page, f"{said}torch.nn.functional.rms_norm", 1)
