"""A click is nobody else's: who joins a run, and what a cancel takes back."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client, SimpleTestCase, TestCase, tag

from runner.models import Run
from runner.runs import jobs
from tests.support import runs, servers
from tests.support.sites import Site

QUEUE = f"{runs.SLUG}.cpu"
ANN, BOB, EVE = "203.0.113.1", "203.0.113.2", "203.0.113.3"


class ClickCase(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        runs.install("/bin/true")

    def click(self, address: str) -> dict[str, Any]:
        """What the API answers to one that wants the run."""
        response = Client(REMOTE_ADDR=address).post(
            "/api/v1/runs",
            {"record": "NAN-9001", "build": runs.SLUG},
            "application/json",
        )
        self.assertEqual(response.status_code, 202, response.content)
        found: dict[str, Any] = response.json()
        return found

    def cancel(self, run: dict[str, Any], address: str) -> Any:
        path = f"/api/v1/runs/{run['id']}/cancel"
        return Client(REMOTE_ADDR=address).post(path)

    def row(self, run: dict[str, Any]) -> Run:
        return Run.objects.get(pk=run["id"])

    def start(self) -> Run:
        return runs.claimed()


class CancelledRunTest(ClickCase):
    """Nobody joins a run that is on its way out."""

    def test_a_click_on_a_run_that_is_being_cancelled_gives_a_new_one(self) -> None:
        first = self.click(ANN)
        claimed = self.start()
        self.assertEqual(self.cancel(first, ANN).status_code, 202)
        for address in (BOB, ANN):
            self.assertNotEqual(self.click(address)["id"], first["id"], address)
        second = self.click(EVE)
        self.assertTrue(second["joined"])
        self.assertTrue(jobs.give_back(claimed))
        self.assertEqual(self.row(first).state, "cancelled")
        self.assertEqual(self.row(second).state, "queued")
        self.assertEqual(self.start().pk, self.row(second).pk)

    def test_cancelling_and_clicking_again_at_once_gives_a_new_run(self) -> None:
        first = self.click(ANN)
        self.start()
        self.cancel(first, ANN)
        second = self.click(ANN)
        self.assertFalse(second["joined"])
        self.assertEqual(self.row(second).cancel_requested, False)


class OwnInterestTest(ClickCase):
    """A cancel takes back one's own click only."""

    def test_who_joined_keeps_the_run_that_its_starter_cancels(self) -> None:
        run = self.click(ANN)
        self.assertEqual(self.click(BOB)["id"], run["id"])
        claimed = self.start()
        body = self.cancel(run, ANN).json()
        self.assertEqual((body["state"], body["others_waiting"]), ("running", 1))
        self.assertEqual(jobs.beat(claimed), jobs.Beat(True, False))
        self.assertEqual(self.cancel(run, ANN).status_code, 403)
        body = self.cancel(run, BOB).json()
        self.assertEqual((body["state"], body["others_waiting"]), ("running", 0))
        self.assertEqual(jobs.beat(claimed), jobs.Beat(True, True))

    def test_a_stranger_who_joins_and_cancels_changes_nothing(self) -> None:
        run = self.click(ANN)
        self.assertEqual(self.cancel(run, EVE).status_code, 403)
        self.click(EVE)
        self.click(BOB)
        self.assertEqual(self.cancel(run, EVE).json()["others_waiting"], 2)
        self.assertEqual(self.row(run).state, "queued")
        self.assertEqual(self.row(run).requester, f"address:{ANN}")

    def test_one_who_clicks_often_is_one_and_may_come_back(self) -> None:
        run = self.click(ANN)
        for address in (ANN, BOB, BOB, ANN):
            self.click(address)
        self.assertEqual(self.cancel(run, ANN).json()["others_waiting"], 1)
        self.click(ANN)
        self.assertEqual(self.cancel(run, BOB).json()["others_waiting"], 1)
        self.assertEqual(self.cancel(run, ANN).json()["state"], "cancelled")

    def test_limits_count_the_run_for_one_who_waits(self) -> None:
        run = self.click(ANN)
        self.click(BOB)
        self.cancel(run, ANN)
        self.assertEqual(self.row(run).requester, f"address:{BOB}")

    def test_what_the_site_itself_wants_stays(self) -> None:
        row = runs.make_run(self.repro, priority=Run.Priority.MATRIX)
        run = self.click(ANN)
        self.assertEqual(run["id"], str(row.pk))
        self.assertEqual(self.cancel(run, ANN).json()["others_waiting"], 1)
        self.assertEqual(self.row(run).state, "queued")

    def test_an_operator_cancels_it_for_all(self) -> None:
        run = self.click(ANN)
        self.click(BOB)
        operator = User.objects.create_user("op")
        operator.groups.set(Group.objects.filter(name="operator"))
        self.client.force_login(operator)
        body = self.client.post(f"/api/v1/runs/{run['id']}/cancel").json()
        self.assertEqual((body["state"], body["others_waiting"]), ("cancelled", 0))


class PageTest(ClickCase):
    def page(self, path: str, address: str) -> Any:
        return Client(REMOTE_ADDR=address).get(path)

    def test_the_page_says_who_else_waits_and_what_a_cancel_did(self) -> None:
        run = self.click(ANN)
        path = f"/en/runs/{run['id']}/"
        self.assertContains(self.page(path, ANN), "Cancel run")
        self.click(BOB)
        self.click(EVE)
        self.assertContains(self.page(path, ANN), "Stop waiting")
        self.assertContains(self.page(path, ANN), "2 others wait for this run.")
        scripted = {"HX-Request": "true"}
        answer = Client(REMOTE_ADDR=ANN).post(f"{path}cancel/", headers=scripted)
        said = "You no longer wait for this run; 2 others do."
        self.assertContains(answer, said)
        self.assertNotContains(self.page(path, ANN), "cancel/")
        answer = Client(REMOTE_ADDR=BOB).post(f"{path}cancel/", follow=True)
        self.assertContains(answer, "You no longer wait for this run; 1 other does.")
        answer = self.page(f"/zh/runs/{run['id']}/?withdrawn=1", BOB)
        self.assertContains(answer, "你不再等待这次运行；还有 1 人在等待。")
        answer = self.page(f"{path}?withdrawn=1", EVE)
        self.assertNotContains(answer, "no longer wait")


CLICK = """
from runner.models import Build
from runner.runs import joining
from kb.models import Repro

def click(who):
    repro, build = Repro.objects.get(), Build.objects.get()
    return submission.submit(repro, build, "cpu", 1, requester=who).run.pk.hex
"""
SETTLE = """
from runner.models import Joiner
Joiner.objects.all().delete()
Run.objects.all().delete()
"""


CAPTURE = """
from runner.captures import keeping
from runner.models import Build, Capture, CaptureRun
from tests.support import captures

def ask():
    builds = list(Build.objects.all())
    capture = Capture.objects.first()
    if capture is None:
        return bool(keeping.keep(captures.text(), builds, "ann"))
    return keeping.run_on(capture, builds, "ann")

"""


class RaceTest(SimpleTestCase):
    """Two processes of one site, on one database, at the same moment."""

    ROUNDS = 10

    def both(self, **environ: str) -> list[Site]:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        first = Site(folder / "site")
        first.environ.update(environ)
        first.migrate()
        first.install(Path("/bin/true"))
        first.python("runs.make_repro(); answer = 1")
        second = copy(first)
        second.shell = None
        for site in (first, second):
            self.addCleanup(site.close)
        return [first, second]

    def at_once(self, sites: list[Site], *codes: str) -> list[Any]:
        asked = [
            partial(site.python, CLICK + code)
            for site, code in zip(sites, codes, strict=True)
        ]
        with ThreadPoolExecutor(len(asked)) as pool:
            return [future.result() for future in [pool.submit(ask) for ask in asked]]

    def rounds(self, **environ: str) -> None:
        sites = self.both(**environ)
        for number in range(self.ROUNDS):
            sites[0].python(SETTLE + "answer = 1")
            # Also of one that a worker holds: its cancel is a request only.
            claim = "" if number % 2 else f"ledger.claim([{QUEUE!r}], 'w'); "
            pk = sites[0].python(f"{CLICK}answer = click('ann'); {claim}")
            cancel = f"joining.cancel(Run.objects.get(pk={pk!r}), 'ann'); "
            self.one_leaves_as_another_comes(sites, cancel)
            self.two_leave(sites)

    def one_leaves_as_another_comes(self, sites: list[Site], cancel: str) -> None:
        _, his = self.at_once(sites, f"{cancel}answer = 1", "answer = click('bob')")
        kept = sites[0].python(
            f"row = Run.objects.wanted().filter(pk={his!r}).first()\n"
            "answer = bool(row and row.is_wanted_by('bob'))"
        )
        self.assertTrue(kept, "a click was lost")

    def two_leave(self, sites: list[Site]) -> None:
        pks = self.at_once(sites, "answer = click('eve')", "answer = click('dan')")
        self.assertEqual(pks[0], pks[1])
        sites[0].python(
            f"{CLICK}joining.cancel(Run.objects.get(pk={pks[0]!r}), 'bob'); answer = 1"
        )
        cancel = f"answer = joining.cancel(Run.objects.get(pk={pks[0]!r}), "
        left = self.at_once(sites, f"{cancel}'eve')", f"{cancel}'dan')")
        self.assertEqual(sorted(left), [0, 1])
        self.assertEqual(sites[0].python("answer = Run.objects.wanted().count()"), 0)

    def two_ask_for_a_build(self, **environ: str) -> None:
        sites = self.both(**environ)
        sites[0].python(f"{CAPTURE}captures.worker(); ask(); answer = 1")
        for _round in range(self.ROUNDS):
            sites[0].python(f"{CAPTURE}CaptureRun.objects.all().delete(); answer = 1")
            queued = self.at_once(sites, *[f"{CAPTURE}answer = ask()"] * 2)
            self.assertEqual(sorted(queued), [False, True])

    @tag("servers")
    def test_on_postgresql(self) -> None:
        self.rounds(DATABASE_URL=servers.postgres_database(self))

    def test_on_a_file(self) -> None:
        self.rounds()

    @tag("servers")
    def test_a_capture_runs_once_on_postgresql(self) -> None:
        self.two_ask_for_a_build(DATABASE_URL=servers.postgres_database(self))

    def test_a_capture_runs_once_on_a_file(self) -> None:
        self.two_ask_for_a_build()
