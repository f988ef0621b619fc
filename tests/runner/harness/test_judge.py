"""The judge: every verdict and every reason, as tables."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.test import SimpleTestCase

from portable import harness
from portable.harness import Header, Report, judge

HEADER = Header(
    "upstream_bug",
    "cuda",
    ("nonfinite > 0",),
    match={"norm": 1e-3},
    expect={"ran": "cudnn"},
)
CLEAN = {"nonfinite": 0, "norm": 2.0, "ran": "cudnn"}
BUG = {"nonfinite": 7, "norm": {"$float": "nan"}, "ran": "cudnn"}
PLAN = ["reference", "control", "detector", "trigger", "workaround_a", "refuted_b"]


def check(name: str, observations: Any = None, error: str = "") -> dict[str, Any]:
    """A recorded check; its outcome is whatever the judge makes of it."""
    return {
        "name": name,
        "trial": 0,
        "outcome": "error" if error else "clean",
        "reason": error or None,
        "observations": observations or {},
    }


def run(**changes: Any) -> list[dict[str, Any]]:
    """The checks of a run that shows the bug, with some of them changed."""
    seen: dict[str, Any] = {
        "requirements": [{}],
        "reference": [{"loss": 1.0}],
        "control": [CLEAN],
        "detector": [BUG],
        "trigger": [BUG],
        "workaround_a": [CLEAN],
        "refuted_b": [BUG],
    }
    checks = []
    for name, values in {**seen, **changes}.items():
        for value in values:
            error = value if isinstance(value, str) else ""
            checks.append(check(name, None if error else value, error))
    return checks


class VerdictTest(SimpleTestCase):
    def assert_verdict(self, checks: Any, verdict: str, reason: str | None) -> None:
        found = judge(HEADER, checks, PLAN)
        self.assertEqual((found.verdict, found.reason), (verdict, reason))
        self.assertIn(found.verdict, harness.VERDICTS)

    def test_bug_present_and_absent(self) -> None:
        for triggers, verdict, hits in (
            ([BUG], "bug_present", 1),
            ([BUG, BUG], "bug_present", 2),
            ([CLEAN, CLEAN, BUG], "bug_present", 1),
            ([CLEAN], "bug_absent", 0),
            ([CLEAN, CLEAN], "bug_absent", 0),
        ):
            with self.subTest(verdict=verdict, hits=hits):
                found = judge(HEADER, run(trigger=triggers), PLAN)
                self.assertEqual((found.verdict, found.reason), (verdict, None))
                self.assertEqual((found.hits, found.trials), (hits, len(triggers)))
                self.assertIs(found.is_affected, verdict == "bug_present")

    def test_inconclusive(self) -> None:
        nan = {"$float": "nan"}
        for changes, reason in (
            ({"control": [BUG]}, "control"),
            ({"detector": [CLEAN]}, "detector_silent"),
            ({"reference": [{"loss": nan}]}, "reference"),
            ({"reference": [{"loss": [1.0, nan]}]}, "reference"),
            ({"reference": [{"ran": "nothing numeric"}]}, "reference"),
            ({"reference": [{}]}, "reference"),
            ({"reference": [{"nonfinite": 2}]}, "reference"),
            ({"control": [{}]}, "metric"),
            ({"detector": [{"nonfinite": True}]}, "metric"),
            ({"trigger": [dict(BUG, nonfinite=nan)]}, "metric"),
            ({"trigger": [{"nonfinite": 7}]}, "metric"),
            ({"trigger": [dict(BUG, ran=1)]}, "metric"),
        ):
            with self.subTest(changes):
                self.assert_verdict(run(**changes), "inconclusive", reason)

    def test_error_is_never_read_as_the_bug(self) -> None:
        reasons = [
            "raised",
            "crash:SIGSEGV",
            "timeout",
            "limit:memory",
            "limit:processes",
            "limit:disk",
            "limit:output",
            "no_report",
            "channel",
            "contract",
            "import",
            "build_missing",
            "device_lost",
            "device_health",
            "refused",
            "lost",
        ]
        for reason in reasons:
            for name in PLAN[:4]:
                with self.subTest(name=name, reason=reason):
                    self.assert_verdict(run(**{name: [reason]}), "error", reason)

    def test_one_failed_trial_leaves_no_verdict(self) -> None:
        self.assert_verdict(run(trigger=[BUG, "timeout", BUG]), "error", "timeout")

    def test_not_applicable(self) -> None:
        for reason in [
            "device",
            "capability",
            "memory",
            "devices",
            "stack:fla",
            "api",
            "compiler",
            "loader",
            "loopback",
        ]:
            probe = dict(check("requirements"), outcome="not_applicable", reason=reason)
            self.assert_verdict([probe], "not_applicable", reason)
        self.assert_verdict(
            run(trigger=[dict(BUG, ran="math")]), "not_applicable", "not_taken"
        )
        self.assert_verdict(
            run(trigger=[{"not_applicable": "no\x1bFP8"}]),
            "not_applicable",
            "said:no␛FP8",
        )

    def test_requirements_that_failed_are_an_error(self) -> None:
        self.assert_verdict([check("requirements", error="import")], "error", "import")

    def test_a_check_that_did_not_run_leaves_no_verdict(self) -> None:
        for name in PLAN[:4]:
            with self.subTest(name):
                self.assert_verdict(run(**{name: []}), "error", "no_report")
        self.assert_verdict([], "error", "no_report")

    def test_what_follows_the_trigger_never_changes_the_verdict(self) -> None:
        for changed in (
            {"workaround_a": ["crash:SIGSEGV"]},
            {"refuted_b": ["timeout"]},
        ):
            self.assert_verdict(run(**changed), "bug_present", None)

    def test_a_model_says_nothing_about_the_build(self) -> None:
        model = dataclasses.replace(HEADER, fidelity="mechanism_model")
        for trigger in (BUG, CLEAN):
            self.assertIsNone(judge(model, run(trigger=[trigger]), PLAN).is_affected)

    def test_recorded_outcomes_are_not_trusted(self) -> None:
        checks = run(control=[BUG], trigger=[CLEAN])
        for item in checks:
            item["outcome"] = (
                "bug" if item["name"] in ("trigger", "detector") else "clean"
            )
        self.assert_verdict(checks, "inconclusive", "control")

    def test_exit_codes_cover_every_verdict(self) -> None:
        self.assertEqual(set(harness.EXIT_CODES), set(harness.VERDICTS))
        self.assertEqual(
            [harness.EXIT_CODES[v] for v in harness.VERDICTS], [1, 0, 125, 2, 2]
        )


class WorkaroundTest(SimpleTestCase):
    def status(self, observations: Any, **changes: Any) -> str:
        checks = run(workaround_a=[observations], **changes)
        return judge(HEADER, checks, PLAN).workarounds["a"]

    def test_status(self) -> None:
        for observations, status in (
            (CLEAN, "verified"),
            (dict(CLEAN, norm=2.001), "verified"),
            (dict(CLEAN, norm=2.01), "untested"),
            (dict(CLEAN, norm={"$float": "nan"}), "untested"),
            ({"nonfinite": 0}, "untested"),
            ({}, "untested"),
            ({"not_applicable": "no flash-attn"}, "untested"),
            ("crash:SIGSEGV", "untested"),
            (BUG, "does_not_help"),
        ):
            with self.subTest(observations):
                self.assertEqual(self.status(observations), status)

    def test_nothing_is_verified_where_the_bug_is_not(self) -> None:
        self.assertEqual(self.status(CLEAN, trigger=[CLEAN]), "untested")
        self.assertEqual(self.status(CLEAN, detector=[CLEAN]), "untested")

    def test_a_workaround_holds_only_where_all_its_trials_do(self) -> None:
        for trials, status in (
            ([CLEAN, CLEAN, CLEAN], "verified"),
            ([CLEAN, BUG, CLEAN], "does_not_help"),
            ([BUG, CLEAN, CLEAN], "does_not_help"),
            ([CLEAN, "timeout", CLEAN], "untested"),
            ([CLEAN, dict(CLEAN, norm=9.0)], "untested"),
            (["timeout", BUG, CLEAN], "does_not_help"),
        ):
            with self.subTest(trials):
                checks = run(trigger=[BUG, CLEAN], workaround_a=trials)
                found = judge(HEADER, checks, PLAN)
                self.assertEqual(found.verdict, "bug_present")
                self.assertEqual(found.workarounds, {"a": status})
                absent = run(trigger=[CLEAN], workaround_a=trials)
                self.assertEqual(
                    judge(HEADER, absent, PLAN).workarounds, {"a": "untested"}
                )

    def test_a_planned_workaround_that_did_not_run_is_untested(self) -> None:
        found = judge(HEADER, run(workaround_a=[]), PLAN)
        self.assertEqual(found.workarounds, {"a": "untested"})

    def test_refuted_checks_give_their_outcome(self) -> None:
        for observations, outcome in (
            (BUG, "bug"),
            (CLEAN, "clean"),
            ("raised", "error"),
        ):
            found = judge(HEADER, run(refuted_b=[observations]), PLAN)
            self.assertEqual(found.refuted, {"b": outcome})

    def test_a_workaround_with_another_result_says_which(self) -> None:
        checks = run(workaround_a=[dict(CLEAN, norm=1.0)])
        self.assertEqual(judge(HEADER, checks, PLAN).workarounds, {"a": "untested"})
        found = harness.assess(HEADER, "workaround_a", dict(CLEAN, norm=1.0), CLEAN)
        said = "changed:norm is 1.0 here and 2.0 in the control, tolerance 0.001"
        self.assertEqual((found.outcome, found.reason), ("error", said))

    def test_match_compares_lists_and_texts(self) -> None:
        header = Header("upstream_bug", "cpu", ("n > 0",), match={"x": 0.01})
        for ours, theirs, is_close in (
            ([1.0, 2.0], [1.0, 2.01], True),
            ([1.0], [1.0, 2.0], False),
            ([1.0, 2.5], [1.0, 2.0], False),
            (True, True, True),
            (1, True, False),
            ("a", "a", True),
            (0.0, 0.0, True),
            (1e-9, 0.0, False),
            (float("inf"), float("inf"), False),
            (1.0, float("inf"), False),
        ):
            with self.subTest(ours=ours, theirs=theirs):
                control = {"n": 0, "x": theirs}
                found = harness.assess(
                    header, "workaround_a", {"n": 0, "x": ours}, control
                )
                self.assertEqual(found.outcome == "clean", is_close, found)


def report(observations: Any = None, **changes: Any) -> Report:
    message = {"t": "result", "check": "trigger", "observations": observations}
    values: dict[str, Any] = {
        "messages": [message],
        "hello": {"identity": {"raw": "2"}},
    }
    return Report(**{**values, **changes})


class ClassifyTest(SimpleTestCase):
    def classify(self, given: Report) -> tuple[str, str | None]:
        return harness.examine(HEADER, given, "trigger")[:2]

    def test_reports_that_came(self) -> None:
        self.assertEqual(self.classify(report(BUG)), ("bug", None))
        self.assertEqual(self.classify(report(CLEAN)), ("clean", None))

    def test_failures_come_before_what_was_reported(self) -> None:
        for failure in ("timeout", "crash:SIGABRT", "no_report"):
            self.assertEqual(
                self.classify(report(BUG, failure=failure)), ("error", failure)
            )

    def test_raised(self) -> None:
        for kind, identity, reason in (
            ("ValueError", {"raw": "2"}, "raised"),
            ("ModuleNotFoundError", {"raw": "2"}, "import"),
            ("ImportError", {"raw": "2"}, "import"),
            ("OSError", {}, "import"),
        ):
            message = {"t": "raised", "type": kind, "text": ""}
            given = report(messages=[message], hello={"identity": identity})
            self.assertEqual(self.classify(given), ("error", reason))

    def test_a_report_of_another_check_is_refused(self) -> None:
        self.assertEqual(
            harness.examine(HEADER, report(CLEAN), "control")[:2], ("error", "channel")
        )

    def test_observations_that_break_the_contract(self) -> None:
        long_list = [0.0] * 1001
        for observations in (
            None,
            [],
            "text",
            {"Upper": 1},
            {"a b": 1},
            {"x": None},
            {"x": {"y": 1}},
            {"x": {"$type": "Tensor"}},
            {"x": ["text"]},
            {"x": [True]},
            {"x": long_list},
            {"x": "é" * 2049},
            {"x": 2**63},
            {"ran": 1},
            {"not_applicable": True},
            {f"k{i}": 0 for i in range(65)},
            {f"k{i}": "x" * 4000 for i in range(17)},
        ):
            with self.subTest(str(observations)[:40]):
                self.assertEqual(
                    self.classify(report(observations)), ("error", "contract")
                )

    def test_observations_at_the_limits(self) -> None:
        for extra in (
            {"x": [0.5] * 1000},
            {"x": "é" * 2048},
            {"x": -(2**63) + 1},
            {f"k{i}": 0 for i in range(61)},
        ):
            self.assertEqual(self.classify(report({**CLEAN, **extra})), ("clean", None))
