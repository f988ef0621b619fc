"""A sweep as a job and as an object: nothing lost, nothing twice, judged again."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from datetime import timedelta
from typing import Any
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from kb.choices import SHIPPED
from kb.models import Finding
from portable import harness
from runner import limits
from runner.evidence.folders import EvidenceReport
from runner.evidence.store import EvidenceRefused
from runner.models import Build, Installation, Run, Sweep
from runner.pages.sweeps import maps
from runner.runs import jobs, retries, submission
from runner.runs.refusals import RunRefused
from runner.sweeps import exchange, queue
from runner.sweeps.boundary import boundary_of
from runner.sweeps.cells import key_of, next_cell, sealed
from runner.worker import drain, sweeping
from tests.support import parametrized, runs

QUEUES = [f"{runs.SLUG}.cpu"]
AXES = {
    "dtype": {"values": ["float32", "float16"]},
    "length": {"values": [6, 7]},
}


class SweepCase:
    def setUp(self) -> None:
        self.repro = parametrized.make_repro()
        self.folder = runs.install_stand_in(self)
        self.build = Build.objects.get(slug=runs.SLUG)

    def submit(self, axes: Any = AXES, requester: str = "user:1") -> Sweep:
        return queue.submit(self.repro, self.build, axes, requester)

    def claim(self) -> Sweep:
        sweep = queue.claim(QUEUES, "w1")
        assert sweep is not None
        return sweep

    def lapse(self) -> dict[str, int]:
        past = timezone.now() - timedelta(hours=1)
        Sweep.objects.filter(state=Run.State.RUNNING).update(lease_until=past)
        return queue.reap()


# The lease is renewed by a connection of its own, which sees what is committed.
class JobTest(SweepCase, TransactionTestCase):
    """With real processes, under a stand-in for torch."""

    AXES = {"dtype": {"values": ["float32", "float16"]}}

    def test_a_slot_does_all_cells(self) -> None:
        self.submit(self.AXES)
        runs.make_worker(queues=QUEUES)
        self.assertEqual(drain.drain("w1"), 1)
        sweep = Sweep.objects.get()
        self.assertEqual((sweep.state, sweep.reason), ("finished", ""))
        at = [cell["at"] for cell in sweep.cells]
        self.assertEqual(at, [{"dtype": "float32"}, {"dtype": "float16"}])
        found = boundary_of(sweep.cells)
        self.assertEqual(str(found.rule[0][0]), "dtype = float32")
        names = [check["name"] for check in sweep.cells[0]["checks"]]
        self.assertEqual(names, ["control", "detector", "trigger"])
        self.assertFalse(Finding.objects.exists())
        exchange.verify(exchange.body_of(sweep))

    def test_a_click_goes_first_and_the_cells_stay(self) -> None:
        self.submit(self.AXES)
        sweep = self.claim()
        run = submission.submit(self.repro, self.build, "cpu", 1).run
        sweeping.execute(sweep, QUEUES)
        sweep.refresh_from_db()
        self.assertEqual((sweep.state, len(sweep.cells)), ("queued", 1))
        self.assertIsNone(queue.claim(QUEUES, "w1"))
        Run.objects.filter(pk=run.pk).update(priority=Run.Priority.MATRIX)
        self.assertEqual(list(self.claim().done), [("float32",)])


class EndTest(SweepCase, TestCase):
    def test_a_cancelled_sweep_is_no_evidence(self) -> None:
        self.submit()
        sweep = self.claim()
        queue.keep(sweep, LossTest.CELL)
        self.assertTrue(jobs.cancel(sweep))
        self.assertEqual(jobs.beat(sweep), jobs.Beat(True, True))
        self.assertTrue(jobs.give_back(sweep))
        sweep.refresh_from_db()
        self.assertEqual((sweep.state, sweep.digest), ("cancelled", ""))
        self.assertFalse(jobs.cancel(sweep))

    def test_of_a_removed_build_it_ends_and_says_so(self) -> None:
        self.submit()
        self.assertEqual(queue.reap()["build_missing"], 0)
        Installation.objects.all().delete()
        self.assertEqual(queue.reap()["build_missing"], 1)
        sweep = Sweep.objects.get()
        self.assertEqual((sweep.state, sweep.reason), ("finished", "build_missing"))

    def test_a_disk_that_takes_nothing_is_no_lost_worker(self) -> None:
        self.submit()
        full = mock.patch.object(tempfile, "tempdir", "/nowhere/at/all")
        with full, self.assertLogs("runner.worker.sweeping", "ERROR"):
            sweeping.execute(self.claim(), QUEUES)
        self.assertEqual(Sweep.objects.get().reason, "refused")

    def test_the_packages_of_the_repro_choose_the_installation(self) -> None:
        stack = {"liger_kernel": "0.8.1"}
        self.repro.header["stack"] = stack
        self.repro.save()
        other = str(self.folder / "with-liger")
        shutil.copy(self.folder / "python", other)
        runs.install(other, modules=stack, **{"with": ["liger-kernel==0.8.1"]})
        self.submit()
        with mock.patch.object(sweeping, "go_on") as go_on:
            sweeping.execute(self.claim(), QUEUES)
        self.assertEqual(go_on.call_args[0][2], other)

    def test_without_its_repro_it_ends_and_says_so(self) -> None:
        self.submit()
        Sweep.objects.update(repro_digest="sha256:" + "0" * 64)
        sweeping.execute(self.claim(), QUEUES)
        self.assertEqual(Sweep.objects.get().reason, "refused")


class LossTest(SweepCase, TestCase):
    """A worker that is killed loses the cell at hand, and writes none twice."""

    CELL = {"at": {"dtype": "float32", "length": 6}, "verdict": "bug_present"}

    def test_another_goes_on_behind_the_cells_that_are_done(self) -> None:
        self.submit()
        lost = self.claim()
        self.assertTrue(queue.keep(lost, self.CELL))
        self.assertEqual(self.lapse()["requeued"], 1)
        second = self.claim()
        self.assertEqual(list(second.done), [("float32", 6)])
        self.assertFalse(queue.keep(lost, self.CELL))
        self.assertFalse(queue.finish(lost, "late"))
        self.assertFalse(jobs.give_back(lost))
        self.assertEqual(jobs.beat(lost), jobs.Beat(False))
        other = {"at": {"dtype": "float32", "length": 7}, "verdict": "bug_present"}
        self.assertTrue(queue.keep(second, other))
        places = [tuple(cell["at"].values()) for cell in Sweep.objects.get().cells]
        self.assertEqual(places, [("float32", 6), ("float32", 7)])

    def test_a_cell_makes_earlier_lapses_forgotten(self) -> None:
        self.submit()
        for _ in range(retries.MOST_LAPSES - 1):
            self.claim()
            self.lapse()
        queue.keep(self.claim(), self.CELL)
        self.assertEqual(self.lapse()["requeued"], 1)

    def test_three_lapses_without_a_cell_are_the_end(self) -> None:
        self.submit()
        for _ in range(retries.MOST_LAPSES):
            self.claim()
            swept = self.lapse()
        self.assertEqual(swept["lost"], 1)
        self.assertEqual(Sweep.objects.get().reason, "lost")


class QuotaTest(SweepCase, TestCase):
    def test_the_same_question_is_one_sweep(self) -> None:
        first = self.submit()
        self.assertEqual(self.submit().pk, first.pk)
        other = {name: AXES[name] for name in reversed(AXES)}
        self.assertNotEqual(self.submit(other).pk, first.pk)

    def test_two_of_ones_own_may_wait(self) -> None:
        for length in (6, 7):
            self.submit({"length": {"values": [length]}})
        with self.assertRaises(RunRefused) as caught:
            self.submit({"length": {"values": [8]}})
        self.assertEqual(caught.exception.code, "throttled")
        self.submit({"length": {"values": [8]}}, "user:2")

    def test_twenty_may_wait_on_the_site(self) -> None:
        for length in range(limits.ALL_JOBS):
            self.submit({"length": {"values": [1 + length]}}, f"user:{length}")
        with self.assertRaises(RunRefused) as caught:
            self.submit()
        self.assertEqual(caught.exception.code, "busy")


class EvidenceTest(SweepCase, TestCase):
    def body(self, axes: Any = AXES) -> dict[str, Any]:
        """As the harness itself makes it, from made-up reports."""
        cells = harness.Cells(self.repro.source, self.report)
        found: dict[tuple[Any, ...], Any] = {}
        done: dict[tuple[Any, ...], str] = {}
        while at := next_cell(axes, done):
            key = key_of(axes, at)
            found[key] = cells.at(at)
            done[key] = found[key]["verdict"]
        body = sealed(
            cells.evidence("repro"),
            record=self.repro.record_id,
            axes=axes,
            cells=list(found.values()),
            started_at="2026-01-02T03:04:05Z",
        )
        return dict(json.loads(harness.dumps(body)))

    def report(self, spec: harness.CheckSpec) -> harness.Report:
        bug = spec.name == "detector" or (
            spec.name == "trigger" and spec.parameters.get("dtype") != "float16"
        )
        message = {
            "t": "result",
            "check": spec.name,
            "trial": spec.trial,
            "observations": {}
            if spec.name == "requirements"
            else {"nonfinite": int(bug), "grad": 1.0},
        }
        said_first = {**runs.hello(self.repro.digest), "parameters": spec.parameters}
        return harness.Report(hello=said_first, messages=[message], exit=0)

    def reseal(self, body: dict[str, Any]) -> dict[str, Any]:
        body["digest"] = harness.evidence_digest(body)
        return body

    def test_a_file_is_loaded_once(self) -> None:
        folder = self.folder / self.repro.record.slug / "sweeps"
        folder.mkdir(parents=True)
        (folder / "repro-dtype-length.json").write_text(json.dumps(self.body()))
        for wanted in ([1, 0, 0], [0, 1, 0]):
            report = EvidenceReport()
            exchange.load_sweeps(self.folder, report)
            counts = [len(report.added), len(report.known), len(report.refused)]
            self.assertEqual(counts, wanted, report.refused)
        sweep = Sweep.objects.get()
        self.assertEqual((sweep.origin, sweep.names), (SHIPPED, list(AXES)))
        self.assertEqual(exchange.body_of(sweep)["cells"], sweep.cells)

    def test_what_lies_is_refused(self) -> None:
        body = self.body()
        lies: dict[str, Any] = {
            "verdict": lambda b: b["cells"][0].update(verdict="bug_absent"),
            "hits": lambda b: b["cells"][0].update(hits=7),
            "missing cell": lambda b: b["cells"].pop(),
            "doubled cell": lambda b: b["cells"].insert(0, b["cells"][0]),
            "moved cell": lambda b: b["cells"].reverse(),
            "other value": lambda b: b["cells"][0]["at"].update(length=8),
            "no parameter": lambda b: b["axes"][0].update(name="heads"),
            "too many": lambda b: b["axes"][1].update(values=list(range(1, 999))),
            "other repro": lambda b: b["repro"].update(digest="sha256:" + "0" * 64),
            "other record": lambda b: b.update(record="NAN-9999"),
            "observation": lambda b: b["cells"][0]["checks"][2]["observations"].update(
                nonfinite=0
            ),
            "no cells": lambda b: b.update(cells=None),
            "no build": lambda b: b.update(build={}),
        }
        for what, lie in lies.items():
            told = copy.deepcopy(body)
            lie(told)
            with self.subTest(what), self.assertRaises(EvidenceRefused):
                exchange.add(self.reseal(told), "upload")
        self.assertFalse(Sweep.objects.exists())
        exchange.add(body, "upload")

    def test_sweeps_of_the_same_parameters_are_merged(self) -> None:
        exchange.add(self.body(), SHIPPED)
        more = self.body(AXES | {"length": {"values": [7, 8]}})
        exchange.add(more, SHIPPED)
        cells = exchange.merged(Sweep.objects.all())
        places = {(cell["at"]["dtype"], cell["at"]["length"]) for cell in cells}
        self.assertEqual((len(cells), len(places)), (6, 6))

    def test_what_was_sent_is_a_map_of_its_own(self) -> None:
        body = self.body()
        exchange.add(body, SHIPPED)
        self.assertNotIn("uploaded by a user", self.page())
        sent = self.body(AXES | {"length": {"values": [7, 8]}})
        path = self.folder / "sent.json"
        path.write_text(json.dumps(sent))
        call_command("load_evidence", path, origin="node-7", verbosity=0)
        own, theirs = maps.of_record(self.repro.record)
        self.assertEqual((len(own.table), len(theirs.table)), (4, 4))
        self.assertIn("node-7 · uploaded by a user, not re-run by us", self.page())

    def page(self) -> str:
        return self.client.get("/en/NAN-9001/", follow=True).content.decode()

    def test_a_sent_sweep_is_held_to_the_shape_of_evidence(self) -> None:
        body = self.body()
        lies: dict[str, Any] = {
            "other key": lambda b: b.update(note="x"),
            "build of a strange name": lambda b: b["build"].update(raw="9.9.0+cu130"),
            "strange fact": lambda b: b["device"].update(serial="1"),
            "from the future": lambda b: b.update(started_at="2999-01-02T03:04:05Z"),
            "invisible text": lambda b: b["device"].update(name="a\u202eb"),
            "no table": lambda b: b.update(build=7),
        }
        for what, lie in lies.items():
            told = copy.deepcopy(body)
            lie(told)
            report = EvidenceReport()
            exchange.receive([self.reseal(told)], "node-7", report)
            with self.subTest(what):
                self.assertEqual(len(report.refused), 1)
        for broken in (7, {}, {"axes": [], "digest": "x"}):
            exchange.receive([broken], "node-7", report)
        self.assertEqual(len(report.refused), 4)
        self.assertFalse(Sweep.objects.exists())
        with self.assertRaises(CommandError):
            call_command("load_evidence", "x.json", "--origin", "site")
