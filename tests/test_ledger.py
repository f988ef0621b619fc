"""The queue: one active run per question, leases, fences, and nothing left behind."""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now
from django.test import TestCase, override_settings

from kb.models import Finding
from runner import ledger, live_log
from runner.ledger import RunRefused
from runner.live_log import Line, LiveLog
from runner.models import Evidence, Installation, Run, Worker
from tests import runs

QUEUE = f"{runs.SLUG}.cpu"
FINISHED = {"state": "finished", "verdict": "bug_present", "finished_at": Now()}


def expire(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=Now() - timedelta(seconds=1))


def worker(*queues: str, name: str = "w", age: int = 0) -> Worker:
    seen = Now() - timedelta(seconds=age)
    fields = {
        "host": "h",
        "queues": list(queues),
        "started_at": seen,
        "last_seen": seen,
    }
    return Worker.objects.update_or_create(name=name, defaults=fields)[0]


class SubmitTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.build = runs.make_build()
        self.installation = runs.install("/bin/true")

    def submit(self, **options: object) -> ledger.Submitted:
        return ledger.submit(self.repro, self.build, "cpu", 1, **options)  # type: ignore[arg-type]

    def refusal(self, device: str = "cpu", requester: str = "") -> str:
        with self.assertRaises(RunRefused) as caught:
            ledger.submit(self.repro, self.build, device, 1, requester)
        self.assertTrue(caught.exception.detail_en and caught.exception.detail_zh)
        return caught.exception.code

    def test_a_new_run_is_queued_and_the_second_click_joins_it(self) -> None:
        first, second = self.submit(), self.submit()
        self.assertEqual((first.joined, first.cached), (False, False))
        self.assertEqual(second, ledger.Submitted(first.run, joined=True))
        self.assertEqual(first.run.state, "queued")

    def test_another_trial_of_the_same_question_joins_even_with_again(self) -> None:
        first = self.submit()
        self.assertEqual(self.submit(again=True).run, first.run)

    def test_a_fresh_verdict_is_returned_unless_asked_again(self) -> None:
        old = runs.make_run(self.repro, **FINISHED)
        self.assertEqual(self.submit(), ledger.Submitted(old, cached=True))
        self.assertNotEqual(self.submit(again=True).run, old)

    def test_more_trials_than_the_fresh_verdict_had_run_anew(self) -> None:
        runs.make_run(self.repro, **FINISHED)
        new = ledger.submit(self.repro, self.build, "cpu", 5)
        self.assertFalse(new.cached)

    def test_errors_and_old_verdicts_are_not_fresh(self) -> None:
        runs.make_run(self.repro, **{**FINISHED, "verdict": "error"})
        runs.make_run(self.repro, **{**FINISHED, "verdict": "inconclusive"})
        long_ago = Now() - timedelta(hours=25)
        runs.make_run(self.repro, **{**FINISHED, "finished_at": long_ago})
        self.assertFalse(self.submit().cached)

    @override_settings(FRESH_HOURS=48)
    def test_the_hours_are_a_setting(self) -> None:
        long_ago = Now() - timedelta(hours=25)
        runs.make_run(self.repro, **{**FINISHED, "finished_at": long_ago})
        self.assertTrue(self.submit().cached)

    def test_a_changed_repro_is_another_question(self) -> None:
        old = runs.make_run(self.repro, **FINISHED)
        self.repro = runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        self.assertNotEqual(self.submit().run, old)

    def test_nobody_has_the_build(self) -> None:
        Installation.objects.update(state="missing")
        self.assertEqual(self.refusal(), "no_installation")
        worker(QUEUE, age=3600)
        self.assertEqual(self.refusal(), "no_installation")
        worker(QUEUE)
        self.assertTrue(self.submit().run)

    def test_cuda_needs_a_worker_with_a_device(self) -> None:
        self.repro = runs.make_repro(runs.source(device="cuda"))
        self.assertEqual(self.refusal("cuda"), "no_device")
        worker(f"{runs.SLUG}.cuda")
        run = ledger.submit(self.repro, self.build, "cuda", 1).run
        self.assertEqual(run.queue, f"{runs.SLUG}.cuda")

    def test_a_cpu_repro_is_not_sent_to_a_gpu(self) -> None:
        worker(f"{runs.SLUG}.cuda")
        self.assertEqual(self.refusal("cuda"), "device")

    def test_a_flood_is_refused(self) -> None:
        for number in range(ledger.MAX_QUEUED_PER_REQUESTER):
            runs.make_run(self.repro, repro_digest=f"x{number}", requester="me")
        self.assertEqual(self.refusal(requester="me"), "busy")
        self.assertTrue(self.submit(requester="somebody else").run)

    def test_the_wake_up_waits_for_the_transaction(self) -> None:
        with self.captureOnCommitCallbacks() as callbacks:
            self.submit()
        self.assertEqual([c.args for c in callbacks], [(QUEUE,)])  # type: ignore[attr-defined]


class ClaimTest(TestCase):
    def test_clicks_before_matrix_and_older_before_newer(self) -> None:
        wanted = []
        for priority in (2, 0, 0):
            text = runs.source(trigger=f"return {{'nonfinite': {len(wanted)}}}")
            wanted.append(runs.make_run(runs.make_repro(text), priority=priority))
        order = [ledger.claim([QUEUE], "w") for _ in range(4)]
        self.assertEqual(order, [wanted[1], wanted[2], wanted[0], None])

    def test_only_queues_that_were_asked_for(self) -> None:
        runs.make_run()
        for queues in ([], [f"{runs.SLUG}.cuda"], ["other.cpu"]):
            self.assertIsNone(ledger.claim(queues, "w"))

    def test_the_claim_sets_lease_attempt_and_worker(self) -> None:
        runs.make_run()
        run = ledger.claim([QUEUE], "w")
        assert run and run.lease_until and run.started_at
        self.assertEqual((run.state, run.attempt, run.worker), ("running", 1, "w"))
        self.assertEqual(run.lease_until - run.started_at, ledger.LEASE)

    def test_phase_and_beat_renew_only_what_is_held(self) -> None:
        runs.make_run()
        run = ledger.claim([QUEUE], "w")
        assert run
        expire(run)
        self.assertEqual(ledger.beat(run), ledger.Beat(True, False))
        self.assertEqual(ledger.sweep()["requeued"], 0)
        self.assertTrue(ledger.set_phase(run, "trigger 1/1"))
        expire(run)
        ledger.sweep()
        self.assertEqual(ledger.beat(run), ledger.Beat(False))
        self.assertFalse(ledger.set_phase(run, "trigger 1/1"))


class FinishTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        runs.install("/bin/true")
        runs.make_run(self.repro)
        run = ledger.claim([QUEUE], "w")
        assert run
        self.run_ = run
        self.body = runs.make_evidence(self.repro)

    def test_verdict_evidence_and_findings_appear_together(self) -> None:
        self.assertTrue(ledger.finish(self.run_, self.body))
        run = Run.objects.get()
        self.assertEqual(
            (run.state, run.verdict, run.hits), ("finished", "bug_present", 1)
        )
        self.assertIsNone(run.lease_until)
        self.assertEqual(run.evidence, Evidence.objects.get())
        self.assertEqual(Finding.objects.triggers().get().verdict, "bug_present")

    def test_a_second_finish_changes_nothing(self) -> None:
        ledger.finish(self.run_, self.body)
        self.assertFalse(ledger.finish(self.run_, "lost"))
        self.assertEqual(Run.objects.get().verdict, "bug_present")

    def test_a_lost_attempt_can_write_nothing(self) -> None:
        expire(self.run_)
        ledger.sweep()
        second = ledger.claim([QUEUE], "w2")
        assert second
        self.assertFalse(ledger.finish(self.run_, self.body))
        self.assertFalse(ledger.cancelled(self.run_))
        self.assertEqual(Evidence.objects.count(), 0)
        self.assertTrue(ledger.finish(second, self.body))
        self.assertEqual(Run.objects.get().attempt, 2)

    def test_an_error_without_evidence_keeps_its_reason(self) -> None:
        self.assertTrue(ledger.finish(self.run_, "build_missing"))
        run = Run.objects.get()
        self.assertEqual((run.verdict, run.reason), ("error", "build_missing"))
        self.assertEqual((run.evidence, run.hits), (None, None))


class CancelTest(TestCase):
    def test_queued_at_once_running_by_request_finished_never(self) -> None:
        run = runs.make_run()
        self.assertTrue(ledger.cancel(run))
        run.refresh_from_db()
        self.assertEqual((run.state, run.verdict), ("cancelled", None))
        self.assertFalse(ledger.cancel(run))

        runs.make_run()
        claimed = ledger.claim([QUEUE], "w")
        assert claimed
        self.assertTrue(ledger.cancel(claimed))
        self.assertEqual(ledger.beat(claimed), ledger.Beat(True, True))
        self.assertTrue(ledger.cancelled(claimed))
        self.assertFalse(ledger.cancel(claimed))

    def test_a_cancelled_run_of_a_lost_worker_ends(self) -> None:
        runs.make_run()
        run = ledger.claim([QUEUE], "w")
        assert run
        ledger.cancel(run)
        expire(run)
        self.assertEqual(ledger.sweep()["cancelled"], 1)
        self.assertEqual(Run.objects.get().state, "cancelled")


class SweepTest(TestCase):
    def test_a_lost_run_is_tried_three_times_and_then_lost(self) -> None:
        runs.install("/bin/true")
        runs.make_run()
        for attempt in (1, 2, 3):
            run = ledger.claim([QUEUE], "w")
            assert run
            self.assertEqual(run.attempt, attempt)
            expire(run)
            swept = ledger.sweep()
            self.assertEqual(
                (swept["requeued"], swept["lost"]), (attempt < 3, attempt == 3)
            )
        run = Run.objects.get()
        self.assertEqual(
            (run.state, run.verdict, run.reason), ("finished", "error", "lost")
        )
        self.assertEqual(sum(ledger.sweep().values()), 0)

    def test_a_held_lease_is_left_alone(self) -> None:
        runs.install("/bin/true")
        runs.make_run()
        ledger.claim([QUEUE], "w")
        self.assertEqual(sum(ledger.sweep().values()), 0)

    def test_a_queued_run_of_a_removed_build_ends(self) -> None:
        runs.make_run()
        worker(QUEUE)
        self.assertEqual(ledger.sweep()["build_missing"], 0)
        worker(QUEUE, age=3600)
        self.assertEqual(ledger.sweep()["build_missing"], 1)
        self.assertEqual(Run.objects.get().reason, "build_missing")


class LiveLogTest(TestCase):
    def setUp(self) -> None:
        runs.make_run()
        run = ledger.claim([QUEUE], "w")
        assert run
        self.run_ = run

    def texts(self) -> list[tuple[int, str]]:
        return list(self.run_.log.values_list("seq", "text"))

    def test_numbers_go_on_over_flushes_and_attempts(self) -> None:
        log = LiveLog(self.run_)
        log.append([Line("control", "stdout", "a", 0.1)])
        log.append([Line("control", "stderr", "b", 0.2)])
        expire(self.run_)
        runs.install("/bin/true")
        ledger.sweep()
        second = ledger.claim([QUEUE], "w")
        assert second
        LiveLog(second).append([Line("control", "stdout", "c", 0.1)])
        self.assertEqual(self.texts(), [(1, "a"), (2, "b"), (3, "c")])
        log.append([Line("control", "stdout", "of a lost attempt", 0.3)])
        self.assertEqual(len(self.texts()), 3)

    def test_a_flood_is_cut_and_says_so(self) -> None:
        log = LiveLog(self.run_)
        line = Line("control", "stdout", "x" * 4000, 0.1)
        for _ in range(4):
            log.append([line] * 100)
        stored = self.texts()
        size = sum(len(text) for _, text in stored)
        self.assertLess(size, live_log.LOG_LIMIT_BYTES + 1000)
        self.assertIn("cut here", stored[-1][1])
        self.assertEqual(sum("cut here" in text for _, text in stored), 1)
        LiveLog(self.run_).append([line])
        self.assertEqual(len(self.texts()), len(stored))


class PlaceTest(TestCase):
    def test_position_counts_who_comes_first(self) -> None:
        first = runs.make_run()
        second = runs.make_run(repro_digest="sha256:other")
        third = runs.make_run(repro_digest="sha256:third", priority=2)
        places = [ledger.place_in_queue(run).position for run in (first, second, third)]
        self.assertEqual(places, [0, 1, 2])
        self.assertIsNone(ledger.place_in_queue(first).eta_s)
        claimed = ledger.claim([QUEUE], "w")
        assert claimed
        self.assertEqual(ledger.place_in_queue(claimed), ledger.Place())
