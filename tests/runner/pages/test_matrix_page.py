"""The matrix: its filters, its pages, and the same cells as JSON."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from kb.models import Record
from runner.pages.matrix import PER_PAGE, build_matrix
from tests.kb.pages.test_pages import Page, PageTest
from tests.support import runs
from tests.support.records import save_all


class MatrixCase(PageTest):
    def run_on(self, raw: str, *, bug: bool = True, repro: Any = None) -> None:
        runs.run_on(repro or self.repro, raw, bug=bug)

    def document(self, query: str = "") -> dict[str, Any]:
        response = self.client.get(f"/en/matrix/?format=json{query}")
        found: dict[str, Any] = response.json()
        return found


class DataTest(MatrixCase):
    def setUp(self) -> None:
        for raw, bug in [("2.4.0", True), ("2.6.0", True), ("2.7.0", False)]:
            self.run_on(raw, bug=bug)
        runs.install("/nowhere/2.5", "2.5.0-cpu")
        self.build.__class__.objects.filter(slug="2.5.0-cpu").update(raw="2.5.0+cpu")

    def test_json_tells_untested_likely_and_judged_apart(self) -> None:
        row = self.document()["rows"][0]
        self.assertEqual((row["record"], row["device"]), ("NAN-9001", "cpu"))
        self.assertEqual(row["title"]["zh"], "一个样例")
        bad, guess, good = (
            row["cells"][f"{n}-cpu"] for n in ("2.4.0", "2.5.0", "2.7.0")
        )
        self.assertEqual((bad["verdict"], bad["hits"]), ("bug_present", 1))
        self.assertEqual((guess["verdict"], guess["likely"]), (None, "bug_present"))
        self.assertEqual((good["verdict"], good["flip"]), ("bug_absent", "first_good"))
        untested = row["cells"][runs.SLUG]
        self.assertEqual((untested["verdict"], untested["likely"]), (None, None))

    def test_models_stand_apart(self) -> None:
        text = runs.source(fidelity="mechanism_model")
        model = runs.make_repro(text, name="repro_model", record="NAN-9001")
        self.run_on("2.3.0", repro=model)
        found = self.document()
        self.assertEqual([line["repro"] for line in found["models"]], ["repro_model"])
        self.assertIsNone(found["rows"][0]["cells"]["2.3.0-cpu"]["verdict"])
        self.assertEqual(self.document("&build=2.4.0-cpu")["models"], [])

    def test_equal_runs_of_a_model_are_one_line_oldest_build_first(self) -> None:
        text = runs.source(fidelity="mechanism_model")
        model = runs.make_repro(text, name="repro_model", record="NAN-9001")
        for raw, bug in [("2.10.0", True), ("2.9.0", True), ("2.3.0", False)]:
            self.run_on(raw, bug=bug, repro=model)
        found = build_matrix(QueryDict())
        builds = [[row.build for row in alike.runs] for alike in found.modelled]
        self.assertCountEqual(builds, [["2.9.0-cpu", "2.10.0-cpu"], ["2.3.0-cpu"]])
        html = self.page("/en/matrix/")
        self.assertEqual(html.count('<summary class="xs">2 builds</summary>'), 1)

    def test_filters_are_in_the_address(self) -> None:
        self.assertEqual(self.document("&component=fsdp")["rows"], [])
        self.assertEqual(self.document("&device=cuda")["rows"], [])
        self.assertEqual(len(self.document("&show=flips&component=sdpa")["rows"]), 1)
        two = "&build=2.4.0-cpu&build=2.7.0-cpu"
        self.assertEqual(self.document(two)["builds"], ["2.4.0-cpu", "2.7.0-cpu"])
        equal = "&build=2.4.0-cpu&build=2.6.0-cpu&show=flips"
        self.assertEqual(self.document(equal)["rows"], [])
        html = self.page("/en/matrix/?component=sdpa")
        self.assertIn("?component=sdpa&amp;format=json", html)


class FoldedTest(MatrixCase):
    """What the page makes of cells: folded by verdict, each a link to its evidence."""

    def cells(self, path: str = "/en/matrix/") -> list[tuple[str, str]]:
        """Address and title of each cell's link."""
        html = unescape(self.page(path))
        return re.findall(r'<a class="w" href="([^"]*)" title="([^"]*)"', html)

    def run_trials(self, raw: str, trials: int, *, bug: bool = True) -> None:
        self.run_on(raw, bug=bug)
        hits = trials if bug else 0
        found = self.record.findings.filter(build=f"{raw}-cpu", check_name="trigger")
        found.update(hits=hits, trials=trials)

    def test_heads_of_tested_releases_lead_to_their_pages(self) -> None:
        self.run_on("2.4.0")
        html = self.page("/zh/matrix/?show=all")
        self.assertIn('<a href="/zh/releases/2.4.0/">2.4.0</a>', html)
        # Known, and nobody ran anything on it: it has no page.
        self.assertIn(f"/zh/builds/{runs.SLUG}/", html)
        self.assertNotIn(f"/zh/releases/{runs.SLUG.partition('-')[0]}/", html)

    def test_what_flips_comes_first_and_everything_is_one_link_away(self) -> None:
        other = runs.make_repro(record="NAN-9002")
        self.run_on("2.4.0", repro=other)
        # Nothing flips yet: then there is no reason to show nothing.
        self.assertIn("NAN-9002", self.page("/en/matrix/"))
        self.run_on("2.6.0")
        self.run_on("2.7.0", bug=False)
        html = self.page("/en/matrix/")
        self.assertIn("NAN-9001", html)
        self.assertNotIn("NAN-9002", html)
        self.assertIn('href="?show=all">Show everything</a>', html)
        everything = self.page("/en/matrix/?show=all")
        self.assertIn("NAN-9002", everything)
        self.assertIn('href="?show=flips">Show only what changes</a>', everything)
        # Data without a choice are of everything; those of the page are of the page.
        self.assertEqual(len(self.document()["rows"]), 2)
        self.assertIn("?format=json&amp;show=flips", html)

    def test_one_build_changes_nothing_and_its_records_are_one_link_away(self) -> None:
        html = self.page("/en/matrix/?show=flips&build=2.4.0-cpu")
        self.assertIn("No verdict changes between these builds.", html)
        self.assertIn("show=all&amp;build=2.4.0-cpu", html.replace("?", "&amp;"))

    def test_another_number_of_trials_splits_no_neighbours(self) -> None:
        for raw, trials in [("2.4.0", 1), ("2.5.0", 20), ("2.6.0", 5)]:
            self.run_trials(raw, trials)
        self.run_trials("2.7.0", 20, bug=False)
        first, second, *_others = self.cells()
        self.assertEqual(first[1], "2.4.0 – 2.6.0: Bug (26/26)")
        self.assertEqual(second[1], "2.7.0: No bug seen (0/20)")

    def test_a_folded_cell_leads_to_the_evidence_of_each_of_its_builds(self) -> None:
        for raw in ("2.4.0", "2.6.0"):
            self.run_on(raw)
        self.run_on("2.7.0", bug=False)
        (folded, _title), (single, _other) = self.cells()[:2]
        self.assertRegex(single, r"^/en/evidence/[0-9a-f]{12}/$")
        builds = "&build=2.4.0-cpu&build=2.6.0-cpu"
        self.assertEqual(folded, f"/en/matrix/?record=NAN-9001{builds}")
        html = self.page(folded)
        for row in self.record.findings.filter(check_name="trigger"):
            shown = row.build != "2.7.0-cpu"
            digest = row.evidence.removeprefix("sha256:")[:12]
            self.assertEqual(f"/en/evidence/{digest}/" in html, shown, row.build)

    def test_what_nobody_ran_leads_to_where_it_can_be_run(self) -> None:
        self.run_on("2.4.0")
        self.run_on("2.7.0")
        runs.install("/nowhere/2.5", "2.5.0-cpu")
        self.build.__class__.objects.filter(slug="2.5.0-cpu").update(raw="2.5.0+cpu")
        urls = dict(map(reversed, self.cells("/en/matrix/?show=all")))  # type: ignore[arg-type]
        self.assertEqual(urls["2.5.0: likely affected"], "/en/matrix/?record=NAN-9001")
        untested = next(url for title, url in urls.items() if "Not tested" in title)
        self.assertEqual(untested, f"/en/NAN-9001/sample/?torch={runs.SLUG}#run")

    def test_releases_are_heads_with_their_builds_below(self) -> None:
        for raw in ("2.6.0+cpu", "2.6.0+cu124"):
            runs.run_on(self.repro, raw)
        html = self.page("/en/matrix/")
        head = r'<th scope="colgroup" colspan="2">\s*<a [^>]*>2\.6\.0</a>\s*</th>'
        self.assertRegex(html, head)
        for slug, variant in [("2.6.0-cpu", "cpu"), ("2.6.0-cu124", "cu124")]:
            self.assertIn(f'title="{slug}">{variant}</a>', html)

    def test_a_workaround_helps_only_where_the_bug_is(self) -> None:
        self.run_on("2.4.0")
        self.run_on("2.7.0", bug=False)
        html = self.page("/en/NAN-9001/sample/").partition('id="builds"')[2]
        table = Page(html.partition("</section>")[0]).text
        turned_off = table.partition("turn off")[2].partition("What else")[0]
        self.assertIn("✔ helps", turned_off)
        self.assertIn("✔ No bug seen", turned_off)


class PagesTest(MatrixCase):
    def more_records(self, count: int) -> None:
        rows = [
            Record(
                id=f"NAN-{number:04d}",
                slug=f"more-{number}",
                publication="published",
                upstream="open",
                symptom_class="nan_grad",
                title_en="More",
                title_zh="更多",
            )
            for number in range(1, count + 1)
        ]
        save_all(rows)
        for row in rows:
            runs.make_repro(record=row.pk)

    def test_many_records_are_paged(self) -> None:
        self.run_on("2.4.0")
        with CaptureQueriesContext(connection) as few:
            self.page("/en/matrix/")
        self.more_records(PER_PAGE + 5)
        with CaptureQueriesContext(connection) as many:
            html = self.page("/en/matrix/")
        self.assertLessEqual(len(many), len(few))
        self.assertNotIn("NAN-9001", html)
        self.assertIn(f"1 to {PER_PAGE} of {PER_PAGE + 6}", html)
        self.assertIn("NAN-9001", self.page("/en/matrix/?page=2"))
        self.assertIn("page=2", self.document()["next"])
        self.assertIsNone(self.document("&page=2")["next"])


class OneRecordTest(MatrixCase):
    path = "/en/matrix/?record=NAN-9001"

    def test_builds_by_check_folded_with_the_flip_in_words(self) -> None:
        for raw, bug in [("2.4.0", True), ("2.6.0", True), ("2.7.0", False)]:
            self.run_on(raw, bug=bug)
        html = self.page(self.path)
        self.assertRegex(html, r"2\.4\.0 – 2\.6\.0</span> <span[^>]*>2 builds")
        self.assertIn("bug gone", html)
        self.assertNotIn("bug appears<", html)
        page = Page(html).text
        self.assertLess(page.index("2.7.0"), page.index("2.4.0 – 2.6.0"))
        self.assertEqual(page.count("fires"), 2)
        lines = self.document("&record=NAN-9001")["cells"]
        self.assertEqual(
            {line["check"] for line in lines} >= {"detector", "trigger"}, True
        )
        found = {(line["build"], line["check"]): line["outcome"] for line in lines}
        self.assertEqual(found["2.7.0-cpu", "trigger"], "clean")

    def test_what_was_tried_in_vain_is_a_table_of_its_own(self) -> None:
        self.run_on("2.4.0")
        row = self.record.findings.get(check_name="trigger")
        row.pk, row.check_name = None, "refuted_pray"
        row.save(force_insert=True)
        tables = re.findall(
            r'<table class="t ts checks">.*?</table>', self.page(self.path), re.S
        )
        first, second = (Page(table).text for table in tables)
        self.assertNotIn("pray", first)
        self.assertIn("What else was tried: 1 check", second)
        self.assertIn("pray", second)
        self.assertNotIn("fires", second)
        self.assertIn("Bug", second)

    def test_what_is_not_there_says_so(self) -> None:
        self.assertIn("Nobody has run this record yet", self.page(self.path))
        self.page("/en/matrix/?record=NAN-7777", 404)
