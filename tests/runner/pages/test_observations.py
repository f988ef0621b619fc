"""Trials and exceptions of a run in the table and the strip of its page."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string
from django.test import SimpleTestCase
from django.utils.translation import override

from runner.pages.observations import observations_of

RAISED: dict[str, Any] = {
    "name": "trigger",
    "outcome": "error",
    "reason": "raised",
    "log": {"text": "step 1\n[stderr] Traceback\n[stderr] RuntimeError: loss is nan\n"},
}


class RaisedTest(SimpleTestCase):
    def test_the_last_line_of_the_traceback_is_shown(self) -> None:
        (row,) = observations_of([RAISED], {}).rows
        self.assertEqual(row.raised, "RuntimeError: loss is nan")

    def test_advice_below_the_exception_is_not_shown_for_it(self) -> None:
        advice = "[stderr] \n[stderr] You can suppress this:\n[stderr]   flag = 1\n"
        log = {"text": RAISED["log"]["text"] + advice + "[stderr] \n"}
        (row,) = observations_of([{**RAISED, "log": log}], {}).rows
        self.assertEqual(row.raised, "RuntimeError: loss is nan")
        (bare,) = observations_of([{**RAISED, "log": {"text": advice}}], {}).rows
        self.assertEqual(bare.raised, "  flag = 1")

    def test_trials_that_raised_differently_have_rows_of_their_own(self) -> None:
        other = {**RAISED, "log": {"text": "[stderr] ValueError: 1"}}
        rows = observations_of([RAISED, RAISED, other], {}).rows
        self.assertEqual([row.trials for row in rows], [2, 1])

    def test_what_another_failure_printed_is_no_exception(self) -> None:
        (row,) = observations_of([{**RAISED, "reason": "timeout"}], {}).rows
        self.assertEqual(row.raised, "")


class TrialsTest(SimpleTestCase):
    def strip(self, **shown: Any) -> str:
        shown = {"hits": 0, "trials": 1, "is_model": False, **shown}
        with override("en"):
            return render_to_string("runner/_trials.html", {"shown": shown})

    def test_without_a_verdict_no_trial_is_clean(self) -> None:
        html = self.strip(is_judged=False)
        self.assertNotIn("✔", html)
        self.assertNotIn("0 of 1", html)
        self.assertIn("✔", self.strip(is_judged=True))

    def test_a_model_shows_a_mechanism_and_no_bug(self) -> None:
        html = self.strip(is_judged=True, is_model=True, hits=1)
        self.assertIn("1 of 1 showed the mechanism", html)
        self.assertNotIn("the bug", html)
