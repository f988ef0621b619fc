"""The queue: one active run per question, leases, fences, and nothing left behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest import mock

from django.db import IntegrityError, OperationalError, connection
from django.db.models.functions import Now
from django.test import TestCase, TransactionTestCase, override_settings

from kb.models import Finding
from portable import harness
from runner.access import address_key
from runner.builds import registry
from runner.evidence import store
from runner.models import Device, Evidence, Installation, Run, Worker
from runner.runs import (
    fleet,
    jobs,
    ledger,
    live_log,
    retries,
    scheduling,
    submission,
)
from runner.runs.live_log import Line, LiveLog
from runner.runs.refusals import RunRefused
from runner.worker import lease
from runner.worker.heartbeat import Heartbeat, expect_one, forget_old_workers
from tests.support import runs

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


def gpu(uuid: str, capability: str = "9.0", gib: int = 80, **fields: object) -> Device:
    values = {
        "capability": capability,
        "memory_mib": gib * 1024,
        "state": "ready",
        "last_seen": Now(),
        **fields,
    }
    return Device.objects.update_or_create(host="h", uuid=uuid, defaults=values)[0]


class SubmitTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.build = runs.make_build()
        self.installation = runs.install("/bin/true")

    def submit(self, **options: object) -> submission.Submitted:
        return submission.submit(self.repro, self.build, "cpu", 1, **options)  # type: ignore[arg-type]

    def refusal(self, device: str = "cpu", requester: str = "") -> str:
        with self.assertRaises(RunRefused) as caught:
            submission.submit(self.repro, self.build, device, 1, requester)
        self.assertTrue(all(caught.exception.sentences.values()))
        return caught.exception.code

    def test_a_new_run_is_queued_and_the_second_click_joins_it(self) -> None:
        first, second = self.submit(), self.submit()
        self.assertEqual((first.joined, first.cached), (False, False))
        self.assertEqual(second, submission.Submitted(first.run, joined=True))
        self.assertEqual(first.run.state, "queued")

    def test_another_trial_of_the_same_question_joins_even_with_again(self) -> None:
        first = self.submit()
        self.assertEqual(self.submit(again=True).run, first.run)

    def test_a_fresh_verdict_is_returned_unless_asked_again(self) -> None:
        old = runs.make_run(self.repro, **FINISHED)
        self.assertEqual(self.submit(), submission.Submitted(old, cached=True))
        self.assertNotEqual(self.submit(again=True).run, old)

    def test_more_trials_than_the_fresh_verdict_had_run_anew(self) -> None:
        runs.make_run(self.repro, **FINISHED)
        new = submission.submit(self.repro, self.build, "cpu", 5)
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
        self.assertEqual(self.refusal("cuda"), "no_device")
        gpu("A", state="quarantined", reason="ECC")
        self.assertEqual(self.refusal("cuda"), "paused")
        gpu("A")
        run = submission.submit(self.repro, self.build, "cuda", 1).run
        self.assertEqual(run.queue, f"{runs.SLUG}.cuda")

    def test_a_gpu_must_satisfy_the_repro(self) -> None:
        self.repro = runs.make_repro(runs.source(device="cuda"))
        worker(f"{runs.SLUG}.cuda")
        gpu("A", "8.0", 40)
        gpu("B", "9.0", 80)
        for needs, code in [
            ({"min_capability": "10.0"}, "capability"),
            ({"min_memory_gib": 81}, "memory"),
            ({"min_devices": 3}, "devices"),
            ({"min_devices": 2, "min_capability": "9.0"}, "devices"),
        ]:
            self.repro.header = needs
            with self.subTest(needs):
                self.assertEqual(self.refusal("cuda"), code)
        self.repro.header = {"min_capability": "9.0", "min_memory_gib": 80}
        run = submission.submit(self.repro, self.build, "cuda", 1).run
        self.assertEqual((run.min_capability, run.min_memory_mib), (900, 80 * 1024))

    def test_a_paused_worker_takes_no_clicks(self) -> None:
        worker(QUEUE)
        Worker.objects.update(paused=True)
        self.assertEqual(self.refusal(), "paused")
        self.assertTrue(self.submit(priority=Run.Priority.MATRIX).run)

    def test_a_worker_that_went_away_is_waited_for_only_a_while(self) -> None:
        Worker.objects.all().delete()
        self.installation.host = "h"
        self.installation.save()
        worker(QUEUE, age=300)
        Run.objects.filter(pk=self.submit().run.pk).delete()
        worker(QUEUE, age=3 * 3600 + 60)
        with self.assertRaises(RunRefused) as caught:
            self.submit()
        self.assertIn("last seen 3 h ago", caught.exception.detail("en"))
        self.assertIn("3 小时前", caught.exception.detail("zh"))

    def test_a_host_that_went_away_is_remembered(self) -> None:
        Installation.objects.update(host="h")
        worker(QUEUE, age=3 * 3600 + 60)
        worker(QUEUE, name="killed before", age=5 * 3600)
        forget_old_workers()
        self.assertEqual(Worker.objects.get().name, "w")
        self.assertEqual(self.refusal(), "offline")
        Installation.objects.all().delete()
        forget_old_workers()
        self.assertFalse(Worker.objects.exists())

    def test_so_is_a_host_whose_worker_was_stopped(self) -> None:
        Worker.objects.all().delete()
        worker(QUEUE)
        Worker.objects.update(host=registry.host_name())
        heartbeat = Heartbeat("w", 1, lambda: True)
        with mock.patch.object(heartbeat, "join"):
            heartbeat.stop()
        self.assertFalse(fleet.online_workers().exists())
        Run.objects.filter(pk=self.submit().run.pk).delete()
        Worker.objects.update(last_seen=Now() - timedelta(hours=3))
        self.assertEqual(self.refusal(), "offline")
        # As `up` does before it starts one.
        expect_one()
        self.assertTrue(self.submit().run)

    def test_a_broken_installation_says_its_last_line(self) -> None:
        Installation.objects.update(state="broken", error="Traceback\nno libtorch")
        with self.assertRaises(RunRefused) as caught:
            self.submit()
        self.assertEqual(caught.exception.code, "broken")
        self.assertIn("no libtorch", caught.exception.detail("en"))

    def test_a_cpu_repro_is_not_sent_to_a_gpu(self) -> None:
        worker(f"{runs.SLUG}.cuda")
        self.assertEqual(self.refusal("cuda"), "device")

    def flood(self, count: int, **fields: object) -> None:
        for number in range(count):
            runs.make_run(self.repro, repro_digest=f"x{number}", **fields)

    @override_settings(QUEUED_PER_REQUESTER=3, MAX_QUEUED=5)
    def test_a_flood_is_refused(self) -> None:
        self.flood(3, requester="me")
        self.assertEqual(self.refusal(requester="me"), "throttled")
        self.assertTrue(self.submit(requester="somebody else").run)
        runs.make_run(self.repro, repro_digest="y", requester="third")
        self.repro = runs.make_repro(runs.source(trigger="return {'nonfinite': 0}"))
        self.assertEqual(self.refusal(requester="fourth"), "busy")

    @override_settings(MAX_QUEUED=2)
    def test_the_matrix_keeps_nobody_out(self) -> None:
        self.flood(5, priority=Run.Priority.MATRIX)
        self.assertTrue(self.submit(requester="me").run)

    @override_settings(RUNS_PER_HOUR=3)
    def test_an_hour_has_its_limit_and_says_when_it_ends(self) -> None:
        self.flood(3, requester="me", state="cancelled")
        ages = zip(Run.objects.all(), (50, 40, 30), strict=True)
        for run, minutes in ages:
            Run.objects.filter(pk=run.pk).update(
                created_at=Now() - timedelta(minutes=minutes)
            )
        with self.assertRaises(RunRefused) as caught:
            self.submit(requester="me")
        self.assertEqual(caught.exception.code, "throttled")
        self.assertTrue(590 < caught.exception.wait_s <= 600)
        self.assertIn("another one in 10 min", caught.exception.detail("en"))
        first = Run.objects.order_by("created_at")[:1]
        Run.objects.filter(pk__in=[row.pk for row in first]).update(
            created_at=Now() - timedelta(minutes=61)
        )
        self.assertTrue(self.submit(requester="me").run)

    def test_an_address_is_counted_by_its_network(self) -> None:
        for given, counted in [
            ("203.0.113.7", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("9" * 200, "9" * 100),
        ]:
            self.assertEqual(address_key(given), counted)

    def test_a_click_makes_a_waiting_matrix_run_urgent(self) -> None:
        first = self.submit(priority=Run.Priority.MATRIX).run
        joined = submission.submit(self.repro, self.build, "cpu", 5)
        self.assertTrue(joined.joined)
        first.refresh_from_db()
        self.assertEqual((first.priority, first.trials), (Run.Priority.CLICK, 5))

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
        self.assertEqual(run.lease_until - run.started_at, retries.LEASE)

    def test_phase_and_beat_renew_only_what_is_held(self) -> None:
        runs.make_run()
        run = runs.claimed()
        expire(run)
        self.assertEqual(jobs.beat(run), jobs.Beat(True, False))
        self.assertEqual(ledger.reap()["requeued"], 0)
        self.assertTrue(ledger.set_phase(run, "trigger 1/1"))
        expire(run)
        ledger.reap()
        self.assertEqual(jobs.beat(run), jobs.Beat(False))
        self.assertFalse(ledger.set_phase(run, "trigger 1/1"))


class CapTest(TestCase):
    """What one requester, the matrix, a pause or an old checkout keeps from a slot."""

    def queue(self, number: int, **fields: object) -> Run:
        text = runs.source(trigger=f"return {{'nonfinite': {number}}}")
        return runs.make_run(runs.make_repro(text, f"repro_{number}"), **fields)

    def test_a_requester_has_so_many_at_a_time(self) -> None:
        mine = [self.queue(n, requester="me") for n in range(3)]
        other = self.queue(3, requester="other")
        taken = [ledger.claim([QUEUE], "w") for _ in range(4)]
        self.assertEqual(taken, [mine[0], mine[1], other, None])
        assert taken[0]
        ledger.finish(taken[0], "lost")
        self.assertEqual(ledger.claim([QUEUE], "w"), mine[2])

    def test_nobody_in_particular_has_no_limit(self) -> None:
        for number in range(4):
            self.queue(number)
        self.assertTrue(all(ledger.claim([QUEUE], "w") for _ in range(4)))

    def test_the_matrix_leaves_one_slot_of_several_to_clicks(self) -> None:
        row = worker(QUEUE)
        Worker.objects.update(slots=2)
        first, second = (self.queue(n, priority=2) for n in range(2))
        self.assertEqual(ledger.claim([QUEUE], "w"), first)
        self.assertIsNone(ledger.claim([QUEUE], "w"))
        row.refresh_from_db()
        self.assertEqual(scheduling.next_waiting([QUEUE], row, 2), [])
        click = self.queue(3)
        self.assertEqual(ledger.claim([QUEUE], "w"), click)
        self.assertEqual(second.state, "queued")

    def test_who_is_paused_or_draining_claims_nothing(self) -> None:
        worker(QUEUE)
        self.queue(1)
        for column in ("paused", "draining"):
            Worker.objects.update(**{column: True})
            self.assertIsNone(ledger.claim([QUEUE], "w"))
            Worker.objects.update(**{column: False})
        self.assertTrue(ledger.claim([QUEUE], "w"))

    def test_a_run_for_another_protocol_is_left_to_its_worker(self) -> None:
        self.queue(1, protocol=harness.PROTOCOL + 1)
        self.assertIsNone(ledger.claim([QUEUE], "w"))


class GpuTest(TestCase):
    """One run per GPU, and each run on a GPU that suffices."""

    def setUp(self) -> None:
        self.repro = runs.make_repro(runs.source(device="cuda"))
        self.queue = f"{runs.SLUG}.cuda"
        worker(self.queue)

    def ask(self, digest: str, **needs: object) -> Run:
        return runs.make_run(self.repro, repro_digest=digest, device="cuda", **needs)

    def claim(self, gpus: list[str] | None = None) -> str | None:
        run = ledger.claim([self.queue], "w", gpus)
        return run.gpu if run else None

    def test_as_many_runs_as_free_gpus(self) -> None:
        for digest in "abc":
            self.ask(digest)
        self.assertIsNone(self.claim())
        gpu("A")
        gpu("B")
        gpu("C", state="paused")
        gpu("D", last_seen=Now() - timedelta(hours=1))
        self.assertEqual([self.claim() for _ in range(3)], ["A", "B", None])
        first = Run.objects.get(gpu="A")
        ledger.finish(first, "device_health")
        self.assertEqual(self.claim(), "A")

    def test_the_least_capable_that_suffices(self) -> None:
        gpu("old", "8.0", 40)
        gpu("new", "9.0", 80)
        self.ask("a", min_capability=900)
        self.ask("b")
        self.ask("c", min_memory_mib=60 * 1024)
        self.assertEqual([self.claim() for _ in range(3)], ["new", "old", None])

    def test_a_run_on_two_gpus_holds_both(self) -> None:
        gpu("A")
        self.ask("a", min_devices=2)
        self.assertIsNone(self.claim())
        gpu("B")
        self.ask("b")
        self.assertEqual([self.claim(), self.claim()], ["A,B", None])

    def test_only_gpus_that_the_worker_could_lock(self) -> None:
        gpu("A")
        gpu("B")
        self.ask("a")
        self.ask("b")
        self.assertEqual([self.claim(["B"]), self.claim(["B"])], ["B", None])

    def test_gpus_without_a_name_are_used_one_at_a_time(self) -> None:
        Worker.objects.update(devices=[{"capability": "9.0", "memory_mib": 1024}] * 2)
        for digest in "ab":
            self.ask(digest, min_capability=900)
        self.assertEqual([self.claim(), self.claim()], ["", None])

    def test_the_database_refuses_a_second_run_on_a_gpu(self) -> None:
        for digest in "ab":
            run = self.ask(digest)
        values = {"state": "running", "gpu": "A", "lease_until": Now()}
        Run.objects.filter(repro_digest="a").update(**values)
        with self.assertRaises(IntegrityError):
            Run.objects.filter(pk=run.pk).update(**values)


class DeadlineTest(TestCase):
    def test_a_run_that_hangs_beyond_all_limits_is_given_up(self) -> None:
        repro = runs.make_repro()
        repro.header["timeout_s"] = 10
        repro.save()
        runs.make_run(repro, trials=3)
        run = runs.claimed()
        again = 2 * sum(
            name == "trigger" or name.startswith("workaround_") for name in repro.checks
        )
        checks = 1 + len(repro.checks) + again
        limit = 10 * checks + retries.DEADLINE_SLACK_S
        self.assertEqual(retries.deadline_s(run), limit)
        keeper = lease.RunKeeper(run)
        keeper.tick()
        self.assertFalse(keeper.lost)
        with mock.patch.object(retries, "deadline_s", return_value=-1):
            late = lease.RunKeeper(run)
        late.tick()
        self.assertTrue(late.lost and late.should_stop())


class FinishTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        runs.install("/bin/true")
        runs.make_run(self.repro)
        self.run_ = runs.claimed()
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
        ledger.reap()
        second = runs.claimed(worker="w2")
        self.assertFalse(ledger.finish(self.run_, self.body))
        self.assertFalse(jobs.give_back(self.run_))
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
        self.assertTrue(jobs.cancel(run))
        run.refresh_from_db()
        self.assertEqual((run.state, run.verdict), ("cancelled", None))
        self.assertFalse(jobs.cancel(run))

        runs.make_run()
        claimed = runs.claimed()
        self.assertTrue(jobs.cancel(claimed))
        self.assertEqual(jobs.beat(claimed), jobs.Beat(True, True))
        self.assertTrue(jobs.give_back(claimed))
        self.assertEqual(Run.objects.get(pk=claimed.pk).state, "cancelled")
        self.assertFalse(jobs.cancel(claimed))

    def test_a_cancelled_run_of_a_lost_worker_ends(self) -> None:
        runs.make_run()
        run = runs.claimed()
        jobs.cancel(run)
        expire(run)
        self.assertEqual(ledger.reap()["cancelled"], 1)
        self.assertEqual(Run.objects.get().state, "cancelled")


class SweepTest(TestCase):
    def test_a_lost_run_is_tried_three_times_and_then_lost(self) -> None:
        runs.install("/bin/true")
        runs.make_run()
        for attempt in (1, 2, 3):
            run = runs.claimed()
            self.assertEqual(run.attempt, attempt)
            expire(run)
            reaped = ledger.reap()
            self.assertEqual(
                (reaped["requeued"], reaped["lost"]), (attempt < 3, attempt == 3)
            )
        run = Run.objects.get()
        self.assertEqual(
            (run.state, run.verdict, run.reason), ("finished", "error", "lost")
        )
        self.assertEqual(sum(ledger.reap().values()), 0)

    def test_a_held_lease_is_left_alone(self) -> None:
        runs.install("/bin/true")
        runs.make_run()
        ledger.claim([QUEUE], "w")
        self.assertEqual(sum(ledger.reap().values()), 0)

    def test_a_queued_run_of_a_removed_build_ends(self) -> None:
        runs.make_run()
        worker(QUEUE)
        self.assertEqual(ledger.reap()["build_missing"], 0)
        worker(QUEUE, age=3600)
        self.assertEqual(ledger.reap()["build_missing"], 1)
        self.assertEqual(Run.objects.get().reason, "build_missing")


class LiveLogTest(TestCase):
    def setUp(self) -> None:
        runs.make_run()
        self.run_ = runs.claimed()

    def texts(self) -> list[tuple[int, str]]:
        return list(self.run_.log.values_list("seq", "text"))

    def test_numbers_go_on_over_flushes_and_attempts(self) -> None:
        log = LiveLog(self.run_)
        log.append([Line("control", "stdout", "a", 0.1)])
        log.append([Line("control", "stderr", "b", 0.2)])
        expire(self.run_)
        runs.install("/bin/true")
        ledger.reap()
        second = runs.claimed()
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
        places = [
            scheduling.place_in_queue(run).position for run in (first, second, third)
        ]
        self.assertEqual(places, [0, 1, 2])
        self.assertIsNone(scheduling.place_in_queue(first).eta_s)
        claimed = runs.claimed()
        self.assertEqual(scheduling.place_in_queue(claimed), scheduling.QueuePosition())

    def test_slots_and_mean_duration_make_the_estimate(self) -> None:
        worker(QUEUE)
        Worker.objects.update(slots=2)
        repro = runs.make_repro()
        for number in range(4):
            found = store.add(
                runs.make_evidence(repro, started_at=f"2026-01-02T03:04:0{number}Z"),
                origin="site",
            )
            runs.make_run(
                **{**FINISHED, "started_at": Now() - timedelta(seconds=10)},
                evidence=found,
            )
        waiting_runs = [runs.make_run(repro_digest=f"sha256:{n}") for n in range(5)]
        place = scheduling.place_in_queue(waiting_runs[4])
        self.assertEqual((place.position, place.eta_s), (4, 20))


class DatabaseAwayTest(TransactionTestCase):
    """A connection that is cut between the claim and the reading of what it claimed."""

    def test_the_claimed_run_is_read_on_a_new_connection(self) -> None:
        run = runs.make_run()
        cut: list[str] = []

        def cut_once(execute: Any, sql: str, *rest: Any) -> Any:
            if not cut and 'JOIN "runner_build"' in sql and "LIMIT 21" in sql:
                cut.append(sql)
                raise OperationalError("server closed the connection unexpectedly")
            return execute(sql, *rest)

        with (
            mock.patch.object(jobs, "DATABASE_PAUSE_S", 0),
            connection.execute_wrapper(cut_once),
            self.assertLogs("runner.runs.jobs", "WARNING"),
        ):
            claimed = runs.claimed(worker="")
        self.assertEqual((claimed.pk, claimed.attempt), (run.pk, 1))
        self.assertTrue(cut)
