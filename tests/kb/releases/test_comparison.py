"""What two sides show of each record, and what nobody may conclude from it."""

from __future__ import annotations

from typing import Any

from django.test import TestCase

from kb.environments.environment import parse_environment
from kb.findings import writing
from kb.models import Finding, Record
from kb.publishing import saving
from kb.releases import sides, words
from kb.releases.comparison import Comparison, Item, compare
from kb.releases.details import shown
from tests.support import findings, loaded, runs

VERDICTS = {True: "bug_present", False: "bug_absent"}


def finding(record: Record, release: str, bug: bool | None, **facts: Any) -> Finding:
    """A trigger's row; `bug` None: it cannot apply there."""
    local = facts.pop("local", "cpu")
    verdict = "not_applicable" if bug is None else VERDICTS[bug]
    evidence = f"sha256:{hash((record.pk, release, local)) % 16**12:064x}"
    facts = {"evidence": evidence, **facts}
    return findings.finding(record, f"{release}+{local}", verdict, **facts)


class ComparisonCase(TestCase):
    def setUp(self) -> None:
        self.records = [runs.make_record(f"NAN-900{at}") for at in range(1, 6)]

    def keep(self, at: int, *rows: Finding) -> None:
        writing.replace(self.records[at], rows)

    def verdicts(self, at: int, **by_release: bool | None) -> None:
        """Of one record, by release: v2_5_1=True."""
        rows = [
            finding(self.records[at], name[1:].replace("_", "."), bug)
            for name, bug in by_release.items()
        ]
        self.keep(at, *rows)

    def compare(self, first: str, last: str, **options: Any) -> Comparison:
        before, after = sides.find(first), sides.find(last)
        assert before and after
        return compare(before, after, **options)

    def changes(self, first: str, last: str, **options: Any) -> list[tuple[str, str]]:
        found = self.compare(first, last, **options)
        return [(item.kind, item.record) for item in found.items()]


class VerdictTest(ComparisonCase):
    def test_the_first_line_counts_every_published_record_once(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.verdicts(1, v2_5_1=False, v2_6_0=True)
        self.verdicts(2, v2_5_1=True, v2_6_0=True)
        self.verdicts(3, v2_5_1=True, v2_6_0=None)
        found = self.compare("2.5.1", "2.6.0")
        self.assertEqual(
            words.summary(found)["en"],
            "1 new bug, 1 fixed (all from CPU runs). "
            "1 unchanged, 2 more not tested on both. "
            "On CUDA, nothing was run on both.",
        )
        self.assertEqual((found.only_before, found.only_after), (1, 0))
        told = [(item.kind, item.record) for item in found.items()]
        self.assertEqual(told, [("new", "NAN-9002"), ("fixed", "NAN-9001")])

    def test_the_other_way_round_fixed_is_new(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.assertEqual(self.changes("2.6.0", "2.5.1"), [("new", "NAN-9001")])

    def test_devices_are_never_compared_with_each_other(self) -> None:
        record = self.records[0]
        on_gpu = finding(record, "2.6.0", False, device_class="cuda")
        self.keep(0, finding(record, "2.5.1", True), on_gpu)
        found = self.compare("2.5.1", "2.6.0")
        self.assertEqual(found.items(), [])
        self.assertFalse(found.is_tested)
        self.assertEqual((found.only_before, found.only_after), (1, 1))

    def test_one_device_can_be_chosen(self) -> None:
        record = self.records[0]
        self.keep(
            0,
            finding(record, "2.5.1", True),
            finding(record, "2.6.0", False),
            finding(record, "2.5.1", False, device_class="cuda"),
            finding(record, "2.6.0", True, device_class="cuda"),
        )
        both = [("new", "NAN-9001"), ("fixed", "NAN-9001")]
        self.assertEqual(self.changes("2.5.1", "2.6.0"), both)
        self.assertEqual(self.compare("2.5.1", "2.6.0").counts["fixed"], 0)
        self.assertEqual(self.changes("2.5.1", "2.6.0", device="cuda"), both[:1])
        self.assertEqual(self.changes("2.5.1", "2.6.0", device="cpu"), both[1:])

    def test_builds_of_a_release_that_differ_say_neither(self) -> None:
        record = self.records[0]
        self.keep(
            0,
            finding(record, "2.5.1", True),
            finding(record, "2.5.1", False, local="cu124"),
            finding(record, "2.6.0", False),
        )
        found = self.compare("2.5.1", "2.6.0")
        self.assertEqual([item.kind for item in found.items()], ["differs"])
        self.assertEqual((found.counts["fixed"], found.counts["differs"]), (0, 1))
        self.assertIn("1 where builds", words.summary(found)["en"])
        one_build = self.changes("2.5.1-cpu", "2.6.0")
        self.assertEqual(one_build, [("fixed", "NAN-9001")])

    def test_stale_results_and_models_count_for_nothing(self) -> None:
        for facts in ({"stale": True}, {"fidelity": "mechanism_model"}):
            with self.subTest(facts):
                record = self.records[0]
                last = finding(record, "2.6.0", False, **facts)
                self.keep(0, finding(record, "2.5.1", True), last)
                self.assertEqual(self.changes("2.5.1", "2.6.0"), [])

    def test_withdrawn_records_are_left_out(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.records[0].publication = "withdrawn"
        self.records[0].withdrawn_because_en = "A mistake."
        self.records[0].withdrawn_because_zh = "有误。"
        saving.save(self.records[0])
        found = self.compare("2.5.1", "2.6.0-cpu")
        self.assertNotIn("NAN-9001", found.kinds)
        self.assertEqual(found.items(), [])


class BesideVerdictsTest(ComparisonCase):
    def workaround(self, first: str, last: str, bug_after: bool = True) -> list[str]:
        record = self.records[0]
        rows = [finding(record, "2.5.1", True), finding(record, "2.6.0", bug_after)]
        for release, outcome, bug in (
            ("2.5.1", first, True),
            ("2.6.0", last, bug_after),
        ):
            rows.append(
                finding(
                    record, release, bug, check_name="workaround_off", outcome=outcome
                )
            )
        self.keep(0, *rows)
        return [kind for kind, _record in self.changes("2.5.1", "2.6.0")]

    def test_workarounds_that_begin_and_cease_to_help(self) -> None:
        self.assertEqual(self.workaround("clean", "bug"), ["workaround_ceases"])
        self.assertEqual(self.workaround("bug", "clean"), ["workaround_begins"])

    def test_nothing_is_said_where_a_side_did_not_run_it_against_the_bug(self) -> None:
        self.assertEqual(self.workaround("clean", "error"), [])
        self.assertEqual(self.workaround("bug", "clean", bug_after=False), ["fixed"])

    def test_behaviour_that_is_no_verdict(self) -> None:
        record = self.records[0]
        self.keep(
            0,
            finding(record, "2.5.1", True, said='{"warned": false}'),
            finding(record, "2.6.0", True, said='{"warned": true}'),
        )
        found = self.compare("2.5.1", "2.6.0")
        self.assertEqual(found.items(), [Item("behaviour", "NAN-9001", "repro", "cpu")])
        (row,) = shown(found, found.items())
        self.assertEqual(row.said, [("warned", False, True)])

    def test_behaviour_that_differs_within_a_side_is_not_told(self) -> None:
        record = self.records[0]
        self.keep(
            0,
            finding(record, "2.5.1", True, said='{"warned": false}'),
            finding(record, "2.5.1", True, said='{"warned": true}', local="cu124"),
            finding(record, "2.6.0", True, said='{"warned": true}'),
        )
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [])


class DocumentedTest(ComparisonCase):
    def setUp(self) -> None:
        super().setUp()
        for record in self.records:
            self.document(record, [])

    def document(self, record: Record, affected: list[dict[str, Any]]) -> None:
        record.affected, record.preconditions = affected, []
        saving.save(record)

    def fixed_in(self, version: str, package: str = "torch") -> list[dict[str, Any]]:
        events = [{"introduced": "2.4.0"}, {"fixed": version}]
        return [{"package": package, "events": events, "source": "s-1"}]

    def test_where_nothing_ran_documents_say_likely(self) -> None:
        self.document(self.records[0], self.fixed_in("2.6.0"))
        found = self.compare("2.5.1", "2.6.0")
        self.assertEqual(found.items(), [Item("likely_fixed", "NAN-9001")])
        self.assertFalse(found.is_tested)
        (row,) = shown(found, found.items())
        self.assertEqual((row.basis, row.runs), ("documented", ([], [])))
        answers = [side.documented and side.documented.answer for side in row.sides]
        self.assertEqual(answers, ["affected", "not_affected"])

    def test_a_run_of_the_later_side_is_never_only_likely(self) -> None:
        """A bug that came with a function, which the earlier release lacks."""
        for record, bug, events in (
            (self.records[0], True, [{"introduced": "2.6.0"}]),
            (self.records[1], False, [{"introduced": "0"}, {"fixed": "2.6.0"}]),
        ):
            entry = {"package": "torch", "events": events, "source": "s-1"}
            self.document(record, [entry])
            rows = [finding(record, "2.5.1", None), finding(record, "2.6.0", bug)]
            writing.replace(record, rows)
        found = self.compare("2.5.1", "2.6.0")
        told = [(item.kind, item.record, item.device) for item in found.items()]
        self.assertEqual(
            told, [("new", "NAN-9001", "cpu"), ("fixed", "NAN-9002", "cpu")]
        )
        self.assertEqual((found.counts["new"], found.counts["not_tested"]), (1, 3))
        self.assertEqual(
            [row.basis for row in shown(found, found.items())], ["run"] * 2
        )
        self.assertFalse(found.is_tested)

    def test_what_comes_stands_before_what_goes(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.document(self.records[1], self.fixed_in("2.6.0"))
        since = [{"introduced": "2.6.0"}]
        entry = {"package": "torch", "events": since, "source": "s-1"}
        self.document(self.records[2], [entry])
        kinds = [kind for kind, _record in self.changes("2.5.1", "2.6.0")]
        self.assertEqual(kinds, ["likely_new", "fixed", "likely_fixed"])
        self.assertIn(
            "1 new bug, 2 fixed (1 from CPU runs, 2 from documents). "
            "0 unchanged, 2 more not tested on both.",
            words.summary(self.compare("2.5.1", "2.6.0"))["en"],
        )

    def test_a_run_with_packages_counts_where_these_are_installed(self) -> None:
        record = self.records[0]
        made = {"made_with": {"packages": {"deepspeed": "0.14.4"}}}
        self.keep(
            0,
            finding(record, "2.5.1", True, **made),
            finding(record, "2.6.0", False, **made),
        )
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [])
        for version, told in (("0.14.4", [("fixed", "NAN-9001")]), ("0.16.6", [])):
            env = parse_environment(f"torch==2.5.1+cpu\ndeepspeed=={version}")
            found = self.compare("2.5.1", "2.6.0", installed=env)
            items = [(item.kind, item.record) for item in found.items()]
            self.assertEqual(items, told, version)

    def test_a_run_on_both_leaves_documents_out(self) -> None:
        self.document(self.records[0], self.fixed_in("2.6.0"))
        self.verdicts(0, v2_5_1=True, v2_6_0=True)
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [])

    def test_documents_that_a_run_contradicts_say_nothing(self) -> None:
        self.document(self.records[0], self.fixed_in("2.6.0"))
        self.verdicts(0, v2_5_1=False)
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [])
        self.verdicts(0, v2_5_1=True)
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [("likely_fixed", "NAN-9001")])

    def test_records_about_packages_that_are_not_there_are_left_out(self) -> None:
        self.document(self.records[0], self.fixed_in("0.15", "deepspeed"))
        self.document(self.records[1], self.fixed_in("2.6.0"))
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        env = parse_environment("torch==2.5.1\nnumpy==2.0.0\n")
        found = self.compare("2.5.1", "2.6.0", installed=env)
        self.assertEqual(found.left_out, {"NAN-9001": ["deepspeed"]})
        told = [(item.kind, item.record) for item in found.items()]
        self.assertEqual(told, [("likely_fixed", "NAN-9002")])
        self.assertNotIn("NAN-9001", found.kinds)
        env = parse_environment("torch==2.5.1\ndeepspeed==0.14\n")
        found = self.compare("2.5.1", "2.6.0", installed=env)
        self.assertEqual(found.left_out, {})
        self.assertEqual(found.counts["fixed"], 1)


class ShippedTest(TestCase):
    """What the shipped evidence holds, record by record."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def told(self, first: str, last: str) -> set[tuple[str, str]]:
        before, after = sides.find(first), sides.find(last)
        assert before and after
        return {(item.kind, item.record) for item in compare(before, after).items()}

    def test_of_2_5(self) -> None:
        told = self.told("2.4.1", "2.5.1")
        self.assertEqual(
            told,
            {
                ("new", "NAN-0009"),
                ("new", "NAN-0066"),
                ("fixed", "NAN-0008"),
                ("workaround_begins", "NAN-0013"),
            },
        )

    def test_a_warning_that_appears(self) -> None:
        self.assertIn(("behaviour", "NAN-0051"), self.told("2.7.1", "2.8.0"))

    def test_what_nobody_ran_is_likely_at_most(self) -> None:
        kinds = {kind for kind, _record in self.told("2.14.0", "2.15.0")}
        self.assertEqual(kinds, {"likely_fixed"})
