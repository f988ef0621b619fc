"""What a run says while it is under way, and of its trials."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.utils import timezone

from kb.models import Finding
from runner.evidence import store
from runner.models import LogChunk, Run
from runner.pages.runs import trials
from runner.runs import jobs, live_log
from tests.kb.pages.test_pages import Page, PageTest
from tests.support import runs


class LiveRunTest(PageTest):
    def running(self, **fields: Any) -> Run:
        began = timezone.now() - timedelta(seconds=9)
        return runs.make_run(
            self.repro, state="running", started_at=began, attempt=1, **fields
        )

    def say(self, run: Run, *said: tuple[str, str, float]) -> None:
        lines = [live_log.phase_line(*item) for item in said]
        live_log.LiveLog(run).append(lines)

    def text(self, run: Run, lang: str = "en") -> str:
        return Page(self.page(f"/{lang}/runs/{run.id}/")).text

    def test_it_says_how_long_it_has_run(self) -> None:
        text = self.text(self.running(phase="control"))
        self.assertRegex(text, r"Running for \d+\.\d s")

    def test_each_phase_says_how_it_went_as_soon_as_it_ended(self) -> None:
        run = self.running(phase="trigger 1/1")
        self.say(
            run,
            ("requirements", "started", 0.0),
            ("requirements", "clean", 2.5),
            ("control", "started", 2.5),
            ("control", "clean  loss 1.5", 3.0),
            ("detector", "started", 3.0),
            ("detector", "bug  nonfinite 1", 3.25),
            ("trigger 1/1", "started", 3.25),
        )
        html = self.page(f"/en/runs/{run.id}/")
        outs = [
            re.sub(r"<[^>]+>|\s+", " ", out).split()
            for out in re.findall(r'<span class="out[^"]*">(.*?)</li>', html, re.DOTALL)
        ]
        self.assertEqual(outs[0], ["met", "2.5", "s"])
        self.assertEqual(outs[1], ["No", "bug", "seen", "0.5", "s"])
        self.assertEqual(outs[2][0], "fires")
        self.assertEqual(outs[3][0], "1/1")
        self.assertEqual(outs[4], ["waiting"])

    def test_steps_are_of_this_attempt_alone(self) -> None:
        run = self.running(phase="requirements")
        self.say(run, ("requirements", "started", 0.0), ("requirements", "clean", 1.0))
        Run.objects.filter(pk=run.pk).update(attempt=2)
        run.refresh_from_db()
        self.assertEqual(live_log.steps(run), [])

    def test_what_a_check_prints_is_no_step(self) -> None:
        run = self.running(phase="control")
        LogChunk.objects.create(
            run=run,
            seq=1,
            attempt=1,
            check_name="control",
            stream="stdout",
            text="trigger 1/1 · bug",
            at=1.0,
        )
        self.assertEqual(live_log.steps(run), [])


class CancelTest(PageTest):
    def own_run(self, **fields: Any) -> Run:
        return runs.make_run(self.repro, requester=runs.CLIENT, **fields)

    def test_it_says_so_at_once_in_heading_and_button(self) -> None:
        run = self.own_run(state="running", phase="control", attempt=1)
        answer = self.client.post(
            f"/en/runs/{run.id}/cancel/", headers={"HX-Request": "true"}
        )
        html = answer.content.decode()
        self.assertRegex(html, r'<h1 id="run-title" hx-swap-oob="true">Cancelling …')
        self.assertRegex(html, r'id="run-cancel"\s+hx-swap-oob="true"\s+disabled')
        self.assertNotIn("log-list", html)
        for path in ("", "status/"):
            html = self.page(f"/en/runs/{run.id}/{path}")
            self.assertIn("Cancelling …", html, path)
            self.assertIn("no verdict is written", html, path)
            self.assertNotIn("The verdict is written once", html, path)
        self.assertRegex(html, r'id="run-cancel"\s+hx-swap-oob')

    def test_the_tab_has_one_colon(self) -> None:
        run = self.own_run(state="running", phase="control", attempt=1)
        self.assertIn("<title>Running: NAN-9001 ·", self.page(f"/en/runs/{run.id}/"))

    def test_without_scripts_it_leads_back_to_the_run(self) -> None:
        run = self.own_run(state="running", phase="control", attempt=1)
        answer = self.client.post(f"/en/runs/{run.id}/cancel/", follow=True)
        self.assertEqual(answer.redirect_chain[0][0], f"/en/runs/{run.id}/")
        self.assertIn('<h1 id="run-title">Cancelling …</h1>', answer.content.decode())

    def test_a_queued_run_is_cancelled_with_it(self) -> None:
        run = self.own_run()
        answer = self.client.post(
            f"/en/runs/{run.id}/cancel/", headers={"HX-Request": "true"}
        )
        self.assertIn(">Cancelled</h1>", answer.content.decode())
        self.assertFalse(jobs.cancel(run))


class TrialsTest(PageTest):
    def shown(self, hits: int, trials: int, build: str = runs.SLUG) -> Finding:
        return Finding(
            repro=self.repro.name,
            build=build,
            check_name="trigger",
            verdict="bug_present",
            hits=hits,
            trials=trials,
        )

    def test_a_certain_bug_needs_one(self) -> None:
        rows = [self.shown(1, 1), self.shown(2, 2, "9.8.0-cpu")]
        found = trials.trials_of(self.repro, rows)
        self.assertEqual(found.default, 1)
        self.assertIn("in each of 3 trials so far; one is enough", found.reason)

    def test_one_that_shows_now_and_then_gets_enough_to_see_it(self) -> None:
        for hits, of, wanted in ((1, 2, 5), (9, 10, 2), (1, 20, 20)):
            found = trials.trials_of(self.repro, [self.shown(hits, of)])
            self.assertEqual(found.default, wanted)
            self.assertIn(f"{hits} of {of}", found.reason)

    def test_where_its_author_asks_for_several_it_says_so(self) -> None:
        self.repro.header["trials"] = 3
        found = trials.trials_of(self.repro, [self.shown(3, 3)])
        self.assertEqual(found.default, 3)
        self.assertIn("the record's author set 3", found.reason)

    def test_the_form_begins_with_that_number(self) -> None:
        evidence = store.add(runs.make_evidence(self.repro), origin="site")
        shown = Finding.objects.filter(evidence=evidence.digest, check_name="trigger")
        shown.update(hits=1, trials=2)
        html = self.page("/en/NAN-9001/sample/")
        field = html.partition('id="r-trials"')[2].partition(">")[0]
        self.assertIn('value="5"', field)
        self.assertIn("so far in 1 of 2", Page(html).text)
