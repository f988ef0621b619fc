"""A bisection as a job: one build after the other, none lost, none asked twice."""

from __future__ import annotations

import math
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from kb.models import Finding
from runner.bisecting import queue, sentences
from runner.models import Bisection, Evidence, Installation, Run, Worker
from runner.runs import jobs, ledger, retries
from runner.runs.refusals import RunRefused
from runner.worker import bisecting, drain
from tests.support import runs

TURNS_BAD = """
import torch
return {"nonfinite": int(torch.__version__ >= "9.5"), "grad": 1.0}
"""
ENDS = ("9.1.0", "9.8.0")
BUILDS = [f"9.{at}.0-cpu" for at in range(1, 9)]


class BisectionCase:
    def setUp(self) -> None:
        self.repro = runs.make_repro(runs.source(trigger=TURNS_BAD))
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for slug in BUILDS:
            raw = slug.replace("-", "+")
            runs.make_build(slug, raw)
            self.install(slug, raw)
        now = timezone.now()
        queues = [f"{slug}.cpu" for slug in BUILDS]
        Worker.objects.create(
            name="w1", host="here", queues=queues, started_at=now, last_seen=now
        )

    def install(self, slug: str, raw: str) -> Installation:
        return runs.install(runs.stand_in_torch(self.folder / slug, raw), slug=slug)

    def submit(self, *ends: str, requester: str = "user:1", **more: Any) -> Bisection:
        return queue.submit(self.repro, *(ends or ENDS), requester, **more)

    def claim(self) -> Bisection:
        row = queue.claim("w1")
        assert row is not None
        return row

    def answer(self, verdict: str, **fields: Any) -> Run:
        """As a worker would, but without a process: the question has this answer."""
        run = Bisection.objects.get().run
        assert run is not None
        fields = {"verdict": verdict, "hits": int(verdict == "bug_present"), **fields}
        fields |= jobs.ended(Run, Run.State.FINISHED)
        Run.objects.filter(pk=run.pk).update(**fields)
        return run

    def known(self, slug: str, verdict: str, hits: int = 1, trials: int = 1) -> None:
        Finding.objects.create(
            record_id=self.repro.record_id,
            repro="repro",
            fidelity=self.repro.fidelity,
            build=slug,
            build_raw=slug.replace("-", "+"),
            device_class="cpu",
            check_name="trigger",
            verdict=verdict,
            hits=hits if verdict == "bug_present" else 0,
            trials=trials,
            origin="site",
            evidence="sha256:" + "0" * 64,
            observed_at=timezone.now(),
        )

    def asked(self) -> list[str]:
        rows = Run.objects.order_by("created_at")
        return [str(slug) for slug in rows.values_list("build", flat=True)]


# Leases are renewed by a connection of their own, which sees what is committed.
class JobTest(BisectionCase, TransactionTestCase):
    """With real processes, under stand-ins for torch."""

    def test_a_slot_finds_where_it_turns_and_keeps_what_ran(self) -> None:
        self.submit()
        drain.drain("w1")
        row = Bisection.objects.get()
        self.assertEqual((row.state, row.reason), ("finished", ""))
        found = (row.found["before"], row.found["after"])
        self.assertEqual(found, ("9.4.0-cpu", "9.5.0-cpu"))
        said = sentences.sentence(row)["en"]
        self.assertEqual(said, "Last good 9.4.0, first bad 9.5.0.")
        steps = {step["build"]: step for step in row.steps}
        self.assertEqual([*steps], self.asked())
        # The two ends are no part of the search.
        self.assertLessEqual(len(steps) - 2, math.log2(len(BUILDS)) + 1)
        kept = set(Evidence.objects.values_list("digest", flat=True))
        self.assertEqual({step["evidence"] for step in row.steps}, kept)
        self.assertEqual({step["how"] for step in row.steps}, {"run"})
        for slug, step in steps.items():
            is_bad = slug >= "9.5"
            self.assertEqual(step["answer"], "bad" if is_bad else "good", slug)
        # What is known is not run again.
        again = self.submit("9.2.0", "9.8.0")
        drain.drain("w1")
        again.refresh_from_db()
        self.assertEqual(again.found["after"], "9.5.0-cpu")
        self.assertLessEqual(Run.objects.count() - len(steps), 1)

    def test_a_click_goes_first(self) -> None:
        self.submit()
        bisecting.execute(self.claim())
        step = Run.objects.get()
        click = runs.make_run(self.repro, build_id="9.3.0-cpu", build=None)
        claimed = ledger.claim(Worker.objects.get().queues, "w1")
        self.assertEqual(claimed, click)
        self.assertEqual((step.priority, step.requester), (Run.Priority.REVERIFY, ""))


class QuietKeeper(bisecting.LeaseKeeper):
    """Without a thread: a test's transaction is seen by its own connection only."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


class LookCase(BisectionCase):
    """Claim by claim, in one transaction."""

    def row(self) -> Bisection:
        return Bisection.objects.get()

    def lapse(self) -> dict[str, int]:
        past = timezone.now() - timedelta(hours=1)
        rows = Bisection.objects.filter(lease_until__isnull=False)
        rows.update(lease_until=past)
        return jobs.requeue_lapsed(Bisection)

    def look(self) -> Bisection:
        """One claim, as a worker does it, without a thread that renews the lease."""
        row = self.claim()
        with mock.patch.object(bisecting, "LeaseKeeper", QuietKeeper):
            bisecting.execute(row)
        return Bisection.objects.get()


class LossTest(LookCase, TestCase):
    """Whoever goes on does it behind the steps that are done."""

    def test_killed_before_it_asked(self) -> None:
        self.submit()
        lost = self.claim()
        self.assertEqual(self.lapse()["requeued"], 1)
        row = self.look()
        self.assertEqual(self.asked(), ["9.1.0-cpu"])
        # The lost one wakes up late: it queues nothing and writes nothing.
        self.assertFalse(queue.ask(lost, self.repro, "9.8.0-cpu", 1))
        self.assertFalse(queue.finish(lost, "late"))
        self.assertEqual(self.asked(), ["9.1.0-cpu"])
        row.refresh_from_db()
        self.assertEqual((row.state, row.run_id), ("running", Run.objects.get().pk))

    def test_killed_when_the_answer_was_there(self) -> None:
        self.submit()
        self.look()
        self.answer("bug_absent")
        lost = self.claim()
        queue.note_answer(lost)
        self.assertEqual(len(lost.steps), 1)
        self.lapse()
        row = self.look()
        self.assertEqual([step["build"] for step in row.steps], ["9.1.0-cpu"])
        self.assertEqual(self.asked(), ["9.1.0-cpu", "9.8.0-cpu"])
        self.assertFalse(queue.keep(lost))

    def test_nobody_looks_while_the_question_is_open(self) -> None:
        self.submit()
        row = self.look()
        self.assertIsNone(queue.claim("w1"))
        self.assertEqual(self.lapse()["requeued"], 0)
        self.assertIsNone(row.lease_until)
        # Its worker is killed: the run itself goes back, and the question stays open.
        Run.objects.update(
            state="running", attempt=1, lease_until=timezone.now() - timedelta(hours=1)
        )
        ledger.sweep()
        self.assertIsNone(queue.claim("w1"))
        self.answer("bug_absent")
        self.look()
        self.assertEqual(self.asked(), ["9.1.0-cpu", "9.8.0-cpu"])

    def test_three_lapses_without_a_step_are_the_end(self) -> None:
        self.submit()
        for _ in range(retries.MOST_LAPSES):
            self.claim()
            swept = self.lapse()
        self.assertEqual(swept["lost"], 1)
        self.assertIn("lost three times", sentences.sentence(self.row())["en"])


class AnswerTest(LookCase, TestCase):
    """What counts as an answer, and what the end says of the rest."""

    def follow(self, verdicts: dict[str, Any]) -> Bisection:
        """Answer each question by its build until it is over."""
        row = self.look()
        for _ in range(2 * len(BUILDS)):
            if row.is_over:
                break
            assert row.run is not None
            told = verdicts.get(row.run.build_id, "")
            self.answer(**(told if isinstance(told, dict) else {"verdict": told}))
            row = self.look()
        return row

    def test_what_cannot_apply_is_never_good(self) -> None:
        self.submit()
        good = dict.fromkeys(BUILDS[:3], "bug_absent")
        bad = dict.fromkeys(BUILDS[5:], "bug_present")
        between = {"9.4.0-cpu": "not_applicable", "9.5.0-cpu": "error"}
        row = self.follow(good | bad | between)
        found = row.found
        self.assertEqual((found["before"], found["after"]), ("9.3.0-cpu", "9.6.0-cpu"))
        self.assertEqual(found["unknown"], ["9.4.0-cpu", "9.5.0-cpu"])
        said = sentences.sentence(row)["en"]
        self.assertIn("Between them, without an answer: 9.4.0, 9.5.0.", said)

    def test_an_end_that_cannot_apply_is_not_called_good(self) -> None:
        self.submit()
        rest = dict.fromkeys(BUILDS[2:], "bug_present")
        row = self.follow(dict.fromkeys(BUILDS[:2], "not_applicable") | rest)
        said = sentences.sentence(row)["en"]
        self.assertEqual(
            said,
            "First bad 9.3.0. That 9.1.0 is good was only said. "
            "Between them, without an answer: 9.2.0.",
        )
        self.assertIsNone(sentences.answered(row, "before"))
        self.assertEqual(sentences.answered(row, "after"), "9.3.0-cpu")

    def test_a_bug_that_happens_sometimes_takes_three_trials(self) -> None:
        self.known("9.8.0-cpu", "bug_present", hits=2, trials=5)
        self.known("9.1.0-cpu", "bug_absent", trials=1)
        self.submit()
        row = self.look()
        # One clean trial says nothing any more: the end itself is asked again.
        assert row.run is not None
        self.assertEqual((row.run.build_id, row.run.trials), ("9.1.0-cpu", 3))

    def test_what_is_known_counts_without_a_run(self) -> None:
        for slug in BUILDS:
            self.known(slug, "bug_present" if slug >= "9.5" else "bug_absent")
        self.submit("9.8.0-cpu", "9.1.0-cpu")
        row = self.look()
        self.assertEqual(row.reason, "contradicted")
        self.assertIn("is bad, not good", sentences.sentence(row)["en"])
        row = self.submit()
        with mock.patch.object(bisecting, "LeaseKeeper", QuietKeeper):
            bisecting.execute(self.claim())
        row.refresh_from_db()
        self.assertEqual(row.found["after"], "9.5.0-cpu")
        self.assertEqual({step["how"] for step in row.steps}, {"evidence"})
        self.assertFalse(Run.objects.exists())

    def test_without_its_repro_it_ends_and_says_so(self) -> None:
        self.submit()
        Bisection.objects.update(repro_digest="sha256:" + "0" * 64)
        row = self.look()
        self.assertEqual(row.reason, "refused")
        self.assertIn("changed meanwhile", sentences.sentence(row)["en"])

    def test_a_cancelled_run_is_no_answer(self) -> None:
        self.submit()
        row = self.look()
        assert row.run is not None
        jobs.cancel(row.run)
        row = self.look()
        first = row.steps[0]
        self.assertEqual((first["answer"], first["reason"]), ("unknown", "cancelled"))
        self.assertEqual(self.asked(), ["9.1.0-cpu", "9.8.0-cpu"])


class CancelTest(LookCase, TestCase):
    def test_a_question_that_only_it_waits_for_goes_with_it(self) -> None:
        self.submit()
        row = self.look()
        self.assertTrue(queue.cancel(row))
        self.assertEqual(Run.objects.get().state, Run.State.CANCELLED)
        self.assertEqual(self.row().state, Bisection.State.CANCELLED)
        self.assertFalse(queue.cancel(row))
        self.assertIsNone(queue.claim("w1"))

    def test_a_question_of_others_stays(self) -> None:
        row = self.submit()
        self.submit("9.1.0", "9.7.0")
        for _ in range(2):
            with mock.patch.object(bisecting, "LeaseKeeper", QuietKeeper):
                bisecting.execute(self.claim())
        run = Run.objects.get()
        self.assertEqual(run.bisections.count(), 2)
        queue.cancel(row)
        run.refresh_from_db()
        self.assertEqual(run.state, Run.State.QUEUED)

    def test_what_runs_goes_on(self) -> None:
        self.submit()
        row = self.look()
        ledger.claim(Worker.objects.get().queues, "w1")
        self.assertTrue(queue.cancel(row))
        run = Run.objects.get()
        self.assertEqual((run.state, run.cancel_requested), ("running", False))

    def test_a_worker_that_holds_it_hears_of_it(self) -> None:
        self.submit()
        row = self.claim()
        self.assertTrue(queue.cancel(row))
        self.assertEqual(jobs.beat(row), jobs.Beat(True, True))
        self.assertEqual(self.row().state, Bisection.State.RUNNING)


class QuotaTest(BisectionCase, TestCase):
    def test_the_same_question_is_one_bisection(self) -> None:
        first = self.submit()
        self.assertEqual(self.submit(requester="user:2").pk, first.pk)

    def test_two_of_ones_own_and_twenty_of_all(self) -> None:
        for at in range(3, 3 + jobs.OWN_JOBS):
            self.submit("9.1.0", f"9.{at}.0")
        with self.assertRaises(RunRefused) as caught:
            self.submit()
        self.assertEqual(caught.exception.code, "throttled")
        full = mock.patch.object(jobs, "ALL_JOBS", jobs.OWN_JOBS)
        with full, self.assertRaises(RunRefused) as caught:
            self.submit(requester="user:2")
        self.assertEqual(caught.exception.code, "busy")
        self.submit(requester="user:2")
