"""What findings make of claims and workarounds: the table of the contract."""

from typing import Any

from django.test import SimpleTestCase

from kb.findings.claims import (
    evidence_for,
    state,
    workaround_by_build,
    workaround_status,
)
from kb.models import Claim, Finding


def some_claim(**changes: Any) -> Claim:
    facts = {"kind": "cause", "check_ref": "repro:trigger", "expects": "bug"}
    return Claim(**{"builds": ["*"], **facts, **changes})


def finding(
    outcome: str = "bug", check: str = "repro:trigger", **changes: Any
) -> Finding:
    repro, _colon, name = check.partition(":")
    facts = {
        "build": "2.13.0-cpu",
        "verdict": "bug_present",
        "fidelity": "upstream_bug",
        "evidence": "sha256:1",
        **changes,
    }
    return Finding(repro=repro, check_name=name, outcome=outcome, **facts)


class ClaimStateTest(SimpleTestCase):
    def assert_state(self, expected: str, claim: Claim, *findings: Finding) -> None:
        self.assertEqual(state(claim, findings), expected)

    def test_without_check_or_evidence_it_is_documented(self) -> None:
        self.assert_state("documented", some_claim(check_ref=""), finding())
        self.assert_state("documented", some_claim())
        self.assert_state("documented", some_claim(), finding(check="repro:control"))
        self.assert_state("documented", some_claim(), finding(check="repro_b:trigger"))

    def test_a_variation_of_the_trigger_needs_the_bug(self) -> None:
        for check in ("repro:workaround_x", "repro:refuted_x"):
            claim = some_claim(kind="cause", check_ref=check, expects="clean")
            absent = finding("clean", check=check, verdict="bug_absent")
            present = finding("clean", check=check)
            self.assert_state("documented", claim, absent)
            self.assert_state("verified", claim, present, absent)

    def test_outcomes_decide(self) -> None:
        claim = some_claim()
        bug, clean = finding("bug"), finding("clean")
        self.assert_state("verified", claim, bug, bug)
        self.assert_state("refuted", claim, clean, clean)
        self.assert_state("disputed", claim, bug, clean)
        self.assert_state("verified", some_claim(expects="clean"), clean)
        self.assert_state("refuted", some_claim(expects="clean"), bug)

    def test_what_says_nothing_is_not_counted(self) -> None:
        claim = some_claim()
        for silent in (
            finding("clean", stale=True),
            finding("error"),
            finding("not_applicable"),
            finding("clean", verdict="inconclusive"),
            finding("clean", verdict="error"),
            finding("clean", verdict="not_applicable"),
        ):
            with self.subTest(silent=silent):
                self.assert_state("documented", claim, silent)
                self.assert_state("verified", claim, finding("bug"), silent)

    def test_a_workaround_is_judged_only_where_the_bug_shows(self) -> None:
        for kind, expected in (
            ("workaround", "documented"),
            ("other", "documented"),
            ("cause", "verified"),
            ("range", "verified"),
            ("fix", "verified"),
        ):
            with self.subTest(kind=kind):
                claim = some_claim(kind=kind, expects="clean")
                absent = finding("clean", verdict="bug_absent")
                self.assert_state(expected, claim, absent)
                self.assert_state("verified", claim, finding("clean"))

    def test_a_claim_speaks_of_its_builds_only(self) -> None:
        claim = some_claim(builds=["2.5.0-cu124"])
        self.assert_state("documented", claim, finding("clean"))
        self.assert_state("refuted", claim, finding("clean", build="2.5.0-cu124"))
        self.assert_state("refuted", some_claim(builds=[]), finding("clean"))

    def test_a_model_verifies_only_causes(self) -> None:
        model = finding("bug", fidelity="mechanism_model")
        self.assert_state("verified", some_claim(kind="cause"), model)
        for kind in ("range", "fix", "workaround", "other"):
            self.assert_state("documented", some_claim(kind=kind), model)

    def test_the_evidence_used_is_named(self) -> None:
        used, stale = finding(evidence="sha256:2"), finding(stale=True)
        self.assertEqual(evidence_for(some_claim(), [stale, used]), [used])


class WorkaroundStatusTest(SimpleTestCase):
    def assert_status(
        self, expected: tuple[str, str | None], *findings: Finding
    ) -> None:
        self.assertEqual(workaround_status("off", findings), expected)

    def row(self, outcome: str, **changes: Any) -> Finding:
        return finding(outcome, **{"check": "repro:workaround_off", **changes})

    def test_clean_where_the_bug_shows_is_verified(self) -> None:
        self.assert_status(("verified", "sha256:1"), self.row("clean"))

    def test_bug_means_it_does_not_help_also_where_builds_differ(self) -> None:
        bug = self.row("bug", evidence="sha256:2")
        self.assert_status(("does_not_help", "sha256:2"), bug)
        self.assert_status(("does_not_help", "sha256:2"), bug, self.row("clean"))

    def test_each_build_says_its_own(self) -> None:
        rows = [self.row("bug", build="2.11.0-cu130"), self.row("clean")]
        self.assertEqual(
            workaround_by_build("off", rows),
            {"2.11.0-cu130": "does_not_help", "2.13.0-cpu": "verified"},
        )
        self.assertEqual(workaround_by_build("off", [self.row("error")]), {})

    def test_everything_else_is_untested(self) -> None:
        self.assert_status(("untested", None))
        for row in (
            self.row("clean", stale=True),
            self.row("clean", verdict="bug_absent"),
            self.row("clean", fidelity="mechanism_model"),
            self.row("clean", check="repro:workaround_official"),
            self.row("error"),
        ):
            with self.subTest(row=row):
                self.assert_status(("untested", None), row)
