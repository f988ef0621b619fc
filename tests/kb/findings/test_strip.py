"""The strip of a record: one cell a build, words of ranges, what is documented."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.test import SimpleTestCase

from kb.findings.results import flips
from kb.findings.strip import Strip, strip
from kb.models import Finding, Record

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def cell(raw: str, verdict: str = "bug_present", repro: str = "repro") -> Finding:
    slug = raw.replace("+", "-")
    return Finding(
        build=slug,
        build_raw=raw,
        device_class="cpu",
        check_name="trigger",
        verdict=verdict,
        fidelity="upstream_bug",
        evidence=f"sha256:{slug}",
        observed_at=MOMENT,
        repro=repro,
    )


def torch(*events: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"package": "torch", "events": list(events), "source": "s", **more}


class StripTests(SimpleTestCase):
    def strip(self, *cells: Finding, yours: str = "", **facts: Any) -> Strip:
        record = Record(id="NAN-9001", **facts)
        return strip(record, list(cells), yours)

    def said(self, found: Strip) -> list[str]:
        return [f"{part.first.word} {part.where}".strip() for part in found.ranges]

    def test_a_word_for_each_range_of_equal_builds(self) -> None:
        found = self.strip(
            cell("1.13.1+debian", "not_applicable"),
            cell("2.3.1+cu121"),
            cell("2.4.1+cu121"),
            cell("2.5.1+cu124", "bug_absent"),
            cell("2.6.0+cu124", "bug_absent"),
        )
        wanted = ["Not applicable", "Bug in 2.3.1 to 2.4.1: 2 builds"]
        self.assertEqual(
            self.said(found), [*wanted, "No bug seen since 2.5.1: 2 builds"]
        )

    def test_since_is_said_only_where_the_bug_was_before(self) -> None:
        clean = [cell(raw, "bug_absent") for raw in ("2.5.1", "2.6.0")]
        said = self.said(self.strip(*clean))
        self.assertEqual(said, ["No bug seen in 2.5.1 to 2.6.0: 2 builds"])

    def test_a_release_does_not_name_one_of_its_builds(self) -> None:
        for yours, is_marked in (("2.4.1+cu121", True), ("2.4.1", False)):
            (part,) = self.strip(cell("2.4.1+cu121"), yours=yours).ranges
            self.assertEqual(part.first.is_yours, is_marked)

    def test_a_bug_that_one_repro_shows_is_the_builds(self) -> None:
        clean = cell("2.5.1", "bug_absent", "repro_fixed")
        found = self.strip(clean, cell("2.5.1"))
        (run,) = found.ranges[0].runs
        self.assertEqual((run.word, run.cell.repro), ("Bug", "repro"))

    def test_the_documented_range_and_its_end(self) -> None:
        ranges = [torch({"introduced": "2.4.0"}, {"fixed": "2.5.0"})]
        fixes = [{"kind": "root_fix", "package": "torch", "version": "2.5.0"}]
        cells = [cell("2.3.1"), cell("2.4.1"), cell("2.5.1"), cell("2.6.0")]
        found = self.strip(*cells, yours="2.6.0", affected=ranges, fixes=fixes)
        runs = found.ranges[0].runs
        marks = [(run.documented, run.is_yours) for run in runs]
        no = (False, False)
        self.assertEqual(marks, [no, (True, False), no, (False, True)])
        self.assertEqual(
            (found.first_fixed, found.fixed_in), (runs[2], "fixed in 2.5.0")
        )
        # Two releases have a fix: neither ends it alone.
        fixes.append({"kind": "backport", "package": "torch", "version": "2.4.2"})
        self.assertIsNone(self.strip(*cells, affected=ranges, fixes=fixes).first_fixed)


class FlipTests(SimpleTestCase):
    def test_flips_are_where_neighbours_disagree(self) -> None:
        cells = [
            cell("2.1.0", "bug_absent"),
            cell("2.2.0"),
            cell("2.3.0", "bug_absent"),
        ]
        kinds = [flip.kind for flip in flips(cells)]
        self.assertEqual(kinds, ["first_bad", "first_good"])

    def test_repros_that_disagree_on_one_build_are_no_flip(self) -> None:
        fixed = cell("2.2.0", "bug_absent", repro="repro_fixed")
        self.assertEqual(flips([cell("2.2.0"), fixed, cell("2.3.0")]), [])
