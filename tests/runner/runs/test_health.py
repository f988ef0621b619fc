"""Health page, probes, metrics; and pruning, which deletes no evidence."""

from __future__ import annotations

import os
import re
import signal
from datetime import timedelta
from unittest import mock

from django.db import OperationalError
from django.db.models.functions import Now
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from runner.evidence import store
from runner.models import (
    CaptureRun,
    Chore,
    Device,
    Evidence,
    LogChunk,
    Run,
    Sweep,
    Worker,
)
from runner.pool.keeper import PoolKeeper
from runner.runs import health, ledger, prune
from runner.runs.live_log import Line, LiveLog
from runner.worker.heartbeat import Heartbeat
from tests.support import runs

QUEUE = f"{runs.SLUG}.cpu"
NOTHING = dict.fromkeys(("logs", "runs", "sweeps"), 0)
SAMPLE = re.compile(r'doesitnan_[a-z_]+(\{[a-z]+="[^"]*"\})? [-+0-9.e]+')


def waiting_for(seconds: int, **fields: object) -> Run:
    run = runs.make_run(**fields)
    created = timezone.now() - timedelta(seconds=seconds)
    Run.objects.filter(pk=run.pk).update(created_at=created)
    return run


class SilentWorkersTest(TestCase):
    def test_the_row_of_a_killed_worker_goes_soon_after_its_heartbeat(self) -> None:
        for name, age, fields in (
            ("killed", 70, {}),
            ("slow", 50, {}),
            ("paused", 100_000, {"paused": True}),
            ("told to end", 70, {"draining": True}),
            ("ended long ago", 100_000, {"draining": True}),
        ):
            runs.make_worker(name, seen=timedelta(seconds=age), **fields)
        heartbeat = Heartbeat("me@here", 1, lambda: False)
        with mock.patch.object(heartbeat, "wake_idle_slots"):
            heartbeat.tick()
        left = set(Worker.objects.values_list("name", flat=True))
        self.assertEqual(left, {"me@here", "slow", "paused", "told to end"})


class HeartbeatTest(SimpleTestCase):
    def test_a_worker_whose_heartbeat_fails_ends(self) -> None:
        heartbeat = Heartbeat("me@here", 1, lambda: False)
        failing = mock.patch.object(heartbeat, "tick", side_effect=OSError("no file"))
        no_pool = mock.patch.object(PoolKeeper, "ensure")
        kill = mock.patch.object(os, "kill")
        with failing, no_pool, kill as killed, self.assertRaises(OSError):
            heartbeat.run()
        killed.assert_called_once_with(os.getpid(), signal.SIGTERM)


class HealthTest(TestCase):
    def alarms(self) -> list[str]:
        return [str(text) for text in health.look().alarms]

    def test_a_quiet_site_needs_no_attention(self) -> None:
        runs.make_worker()
        self.assertEqual(self.alarms(), [])
        page = self.client.get("/en/health/").content.decode()
        self.assertIn("Nothing needs attention.", page)
        self.assertIn(QUEUE, page)

    def test_a_host_that_answers_cold_says_why(self) -> None:
        reason = "2.13.0-cpu: the warm parent was killed from outside"
        runs.make_worker("one", cold=reason)
        runs.make_worker("two", cold=reason)  # the same host, and so the same pool
        cold = "2.9.0-cpu: its imports fail"
        runs.make_worker("gone", seen=timedelta(minutes=10), host="other", cold=cold)
        (alarm,) = self.alarms()
        self.assertEqual(alarm, f"Runs on h start slowly (cold), because {reason}")
        self.assertIn(
            f'doesitnan_cold_builds{{host="h",because="{reason}"}} 1\n',
            health.metrics(),
        )
        page = self.client.get("/zh/health/").content.decode()
        self.assertIn(f"h 上的运行启动较慢（冷启动），原因：{reason}", page)

    def test_a_forgotten_run_raises_an_alarm(self) -> None:
        runs.make_worker()
        ledger.reap()
        waiting_for(59)
        self.assertEqual(self.alarms(), [])
        Run.objects.update(created_at=Now() - timedelta(seconds=70))
        (alarm,) = self.alarms()
        self.assertIn("although a worker is idle", alarm)
        Worker.objects.update(paused=True)
        self.assertEqual(self.alarms(), [])
        self.assertContains(self.client.get("/en/workers/"), "· paused")

    def test_the_slot_that_is_left_to_clicks_is_not_idle_to_the_matrix(self) -> None:
        runs.make_worker(slots=2)
        ledger.reap()
        matrix = {"priority": Run.Priority.MATRIX}
        runs.make_run(state="running", worker="w1", **matrix)
        waiting_for(70, repro_digest="x", **matrix)
        self.assertEqual(self.alarms(), [])
        waiting_for(70, repro_digest="y")
        self.assertEqual(len(self.alarms()), 1)

    def test_a_slot_with_a_sweep_or_a_capture_is_not_idle(self) -> None:
        runs.make_worker(slots=2)
        ledger.reap()
        held = {"state": "running", "worker": "w1", "lease_until": timezone.now()}
        runs.make_sweep(**held)
        capture = {"build": runs.make_build(), "device": "cpu", "protocol": 1}
        CaptureRun.objects.create(**capture, **held)
        waiting_for(70)
        self.assertEqual(self.alarms(), [])
        self.assertEqual(health.look().queues[0].idle_slots, 0)

    def test_nobody_serves_nobody_sweeps(self) -> None:
        waiting_for(5)
        self.assertEqual(len(self.alarms()), 3)
        ledger.reap()
        self.assertEqual(len(self.alarms()), 1)  # its build is on no machine
        self.assertEqual(Run.objects.get().reason, "build_missing")

    def test_the_oldest_wait_and_both_languages(self) -> None:
        runs.make_worker(slots=1)
        runs.make_worker("gone", seen=timedelta(hours=1))
        Device.objects.create(
            host="h", uuid="GPU-1", state="quarantined", reason="ECC", last_seen=Now()
        )
        runs.make_run(state="running", worker="w1")
        waiting_for(600, repro_digest="x")
        found = health.look()
        (row,) = found.queues
        self.assertEqual((row.waiting, row.running, row.idle_slots), (1, 1, 0))
        self.assertAlmostEqual(row.oldest_s, 600, delta=30)
        page = self.client.get("/en/health/").content.decode()
        self.assertIn("10\xa0minutes", page)
        page = self.client.get("/zh/health/").content.decode()
        self.assertIn("GPU-1", page)
        self.assertIn("ECC", page)


class ProbeTest(TestCase):
    def test_ready_and_not(self) -> None:
        self.assertEqual(self.client.get("/readyz").content, b"ok\n")
        error = OperationalError("no such host\nmore")
        with mock.patch.object(health, "MigrationExecutor", side_effect=error):
            response = self.client.get("/readyz")
        self.assertEqual(response.status_code, 503)
        self.assertEqual(response.content, b"database: no such host\n")

    def test_migrations_that_are_not_applied(self) -> None:
        with mock.patch.object(health, "MigrationExecutor") as executor:
            executor.return_value.migration_plan.return_value = [1, 2]
            response = self.client.get("/readyz")
        self.assertContains(response, "2 migrations", status_code=503)

    def test_metrics_are_prometheus_text(self) -> None:
        runs.make_worker()
        ledger.reap()
        waiting_for(30)
        runs.make_run(
            repro_digest="x", state="finished", verdict="error", finished_at=Now()
        )
        response = self.client.get("/metrics")
        self.assertTrue(response["Content-Type"].startswith("text/plain; version="))
        lines = response.content.decode().splitlines()
        for line in lines:
            self.assertTrue(line.startswith("# ") or SAMPLE.fullmatch(line), line)
        self.assertIn(f'doesitnan_runs_queued{{queue="{QUEUE}"}} 1', lines)
        self.assertIn('doesitnan_runs_finished_day{verdict="error"} 1', lines)
        self.assertIn("doesitnan_workers_online 1", lines)

    def test_a_label_is_escaped(self) -> None:
        found = health.label(name='a"b\\c\nd')
        self.assertEqual(found, '{name="a\\"b\\\\c\\nd"}')

    @override_settings(METRICS_TOKEN="secret")
    def test_metrics_may_ask_for_a_token(self) -> None:
        for given, status in [("", 401), ("Bearer x", 401), ("Bearer secret", 200)]:
            response = self.client.get("/metrics", headers={"Authorization": given})
            self.assertEqual(response.status_code, status)


@override_settings(LOG_DAYS=90, RUN_DAYS=365)
class PruneTest(TestCase):
    def finished(self, days: int, number: int) -> Run:
        """A run of one question, with evidence and a log, that ended days ago."""
        moment = timezone.now() - timedelta(days=days)
        body = runs.make_evidence(
            runs.make_repro(), started_at=f"2024-01-01T00:00:0{number}Z"
        )
        run = runs.make_run(
            state="finished",
            verdict="bug_present",
            finished_at=moment,
            evidence=store.add(body, origin="site"),
        )
        run.log.create(seq=1, attempt=1, text="x", at=0)
        return run

    def test_old_logs_and_superseded_runs_go_and_evidence_stays(self) -> None:
        ages = (400, 380, 100, 10)
        rows = [self.finished(days, n) for n, days in enumerate(ages)]
        self.assertEqual(prune.prune(), NOTHING | {"logs": 3, "runs": 2})
        self.assertEqual(set(Run.objects.all()), set(rows[2:]))
        self.assertEqual(Evidence.objects.count(), 4)
        self.assertEqual(LogChunk.objects.get().run, rows[3])

    def test_the_last_answer_to_a_question_stays_however_old(self) -> None:
        run = self.finished(2000, 0)
        prune.prune()
        self.assertEqual(Run.objects.get(), run)

    def test_runs_that_go_on_are_left_alone(self) -> None:
        runs.make_run()
        run = runs.claimed()
        LiveLog(run).append([Line("control", "stdout", "x", 0)])
        self.assertEqual(prune.prune(), NOTHING)
        self.assertEqual(run.log.count(), 1)

    def test_sweeps_that_ended_early_go_and_finished_ones_stay(self) -> None:
        for number, (days, digest) in enumerate([(400, ""), (10, ""), (400, "d")]):
            runs.make_sweep(
                digest=digest,
                attempt=number,
                finished_at=timezone.now() - timedelta(days=days),
            )
        self.assertEqual(prune.prune()["sweeps"], 1)
        self.assertEqual(set(Sweep.objects.values_list("attempt", flat=True)), {1, 2})

    def test_once_a_day(self) -> None:
        self.finished(100, 0)
        self.assertEqual(prune.prune_if_due()["logs"], 1)
        self.assertEqual(prune.prune_if_due(), {})
        Chore.objects.update(done_at=Now() - timedelta(hours=25))
        self.assertNotEqual(prune.prune_if_due(), {})
