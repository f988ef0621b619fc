"""A release: what it fixed and broke, what is documented of it, what is open."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase, TestCase

from kb.publishing import saving
from kb.release_pages import curve_plot
from kb.releases import release
from kb.releases.release import Point, Release
from tests.kb.releases.test_comparison import ComparisonCase, finding
from tests.support import loaded


class ReleaseTest(ComparisonCase):
    def find(self, name: str) -> Release:
        found = release.find(name)
        assert found
        return found

    def document(
        self, at: int, *, fixed: str = "", kind: str = "", since: str = ""
    ) -> None:
        record = self.records[at]
        events: list[dict[str, str]] = [{"introduced": since or "0"}]
        if fixed:
            events.append({"fixed": fixed})
        record.affected = [{"package": "torch", "events": events, "source": "s-1"}]
        record.sources = [{"id": "s-1", "kind": "release", "url": "", "title": "t"}]
        record.fixes = []
        if kind:
            fix = {"package": "torch", "version": fixed, "kind": kind, "source": "s-1"}
            record.fixes = [fix]
        saving.save(record)

    def shows(self, name: str) -> list[tuple[str, str]]:
        return [(row.which, row.shows) for row in self.find(name).documented]

    def test_what_it_fixed_and_broke(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.verdicts(1, v2_4_1=False, v2_5_1=None, v2_6_0=True)
        found = self.find("2.6.0")
        self.assertEqual([flip.record_id for flip in found.fixed], ["NAN-9001"])
        (flip,) = found.broken
        self.assertEqual((flip.record_id, flip.before), ("NAN-9002", "2.4.1-cpu"))
        assert found.previous
        self.assertEqual((found.previous.name, found.next), ("2.5.1", None))

    def test_builds_of_one_release_that_differ_are_no_flip_of_it(self) -> None:
        record = self.records[0]
        other = finding(record, "2.6.0", False, local="cu124")
        self.keep(0, finding(record, "2.6.0", True), other)
        self.assertEqual(self.find("2.6.0").fixed, [])

    def test_documents_against_runs(self) -> None:
        self.document(0, fixed="2.6.0", kind="root_fix")
        rows: list[tuple[dict[str, Any], str]] = [
            ({"v2_5_1": True, "v2_6_0": False}, "agrees"),
            ({"v2_5_1": True, "v2_6_0": True}, "contradicted"),
            ({"v2_5_1": False, "v2_6_0": False}, "already"),
            ({"v2_5_1": True, "v2_6_0": None}, "not_run"),
            ({"v2_6_0": False}, "agrees"),
        ]
        for verdicts, expected in rows:
            with self.subTest(verdicts):
                self.verdicts(0, **verdicts)
                self.assertEqual(self.shows("2.6.0"), [("ends", expected)])

    def test_a_bug_that_is_only_avoided_by_default_may_still_show(self) -> None:
        self.document(0, fixed="2.6.0", kind="avoided_by_default")
        self.verdicts(0, v2_5_1=True, v2_6_0=True)
        self.assertEqual(self.shows("2.6.0"), [("ends", "on_request")])

    def test_a_beginning(self) -> None:
        self.document(0, since="2.6.0")
        self.verdicts(0, v2_5_1=False, v2_6_0=True)
        self.assertEqual(self.shows("2.6.0"), [("begins", "agrees")])
        self.verdicts(0, v2_5_1=False, v2_6_0=False)
        self.assertEqual(self.shows("2.6.0"), [("begins", "contradicted")])

    def test_other_packages_and_versions_say_nothing_of_it(self) -> None:
        self.document(0, fixed="2.6.0")
        record = self.records[0]
        record.affected = [{**record.affected[0], "package": "transformers"}]
        saving.save(record)
        self.document(1, fixed="2.6.1")
        self.verdicts(2, v2_6_0=True)
        self.assertEqual(self.shows("2.6.0"), [])

    def test_the_curve_counts_records_not_builds(self) -> None:
        record = self.records[0]
        self.keep(
            0,
            finding(record, "2.5.1", True),
            finding(record, "2.6.0", False),
            finding(record, "2.6.0", False, local="cu124"),
        )
        self.verdicts(1, v2_5_1=True, v2_6_0=True)
        self.verdicts(2, v2_5_1=None)
        curve = self.find("2.6.0").curve
        self.assertEqual(curve, (Point("2.5.1", 2, 2), Point("2.6.0", 1, 2)))

    def test_what_nobody_ran(self) -> None:
        self.verdicts(0, v2_6_0=True)
        self.verdicts(1, v2_6_0=None)
        model = finding(self.records[2], "2.6.0", True, fidelity="mechanism_model")
        self.keep(2, model)
        found = self.find("2.6.0")
        ids = [record.pk for record in found.unrun_records]
        self.assertEqual(ids, ["NAN-9003", "NAN-9004", "NAN-9005"])
        self.assertEqual(found.unrun, 3)

    def test_addresses(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.assertContains(self.client.get("/en/releases/2.6.0/"), "torch 2.6.0")
        self.assertRedirects(
            self.client.get("/en/releases/2.6/"), "/en/releases/2.6.0/"
        )
        for name in ("2.7.0", "2.6.0-cpu", "zebra"):
            self.assertEqual(self.client.get(f"/en/releases/{name}/").status_code, 404)
        listed = self.client.get("/zh/releases/")
        self.assertContains(listed, '"/zh/releases/2.5.1/"')
        build = self.client.get("/en/builds/2.6.0-cpu/")
        self.assertEqual(build.status_code, 404)  # a build that no host told of


class ShippedReleaseTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def test_2_6(self) -> None:
        found = release.find("2.6.0")
        assert found
        fixed = [flip.record_id for flip in found.fixed]
        self.assertEqual(fixed, ["NAN-0009", "NAN-0042"])
        shows = {(row.record.pk, row.shows) for row in found.documented}
        self.assertEqual(shows, {("NAN-0009", "agrees"), ("NAN-0042", "agrees")})
        page = self.client.get("/en/builds/2.6.0-cu124/")
        self.assertContains(page, '"/en/releases/2.6.0/"')


class PlotTest(SimpleTestCase):
    def test_a_single_release_is_no_curve(self) -> None:
        self.assertIsNone(curve_plot.draw([Point("2.5.1", 1, 2)]))

    def test_higher_is_more(self) -> None:
        points = [Point("2.5.1", 4, 10), Point("2.6.0", 2, 10), Point("2.7.0", 0, 0)]
        plot = curve_plot.draw(points, this="2.6.0")
        assert plot
        heights = [place.bad_y for place in plot.places]
        self.assertEqual(heights, sorted(heights))
        self.assertEqual(heights[-1], curve_plot.BOTTOM)
        self.assertEqual([place.is_this for place in plot.places], [False, True, False])

    def test_scales_are_round_and_hold_everything(self) -> None:
        for most in (0, 1, 3, 7, 52, 65, 999, 10_000):
            top, step = curve_plot.scale(most)
            self.assertGreaterEqual(top, most)
            self.assertEqual(top % step, 0)
            self.assertLessEqual(top // step, curve_plot.TICKS)
            self.assertIn(str(step).rstrip("0"), ("1", "2", "5"))

    def test_of_many_releases_the_newest_keeps_its_name(self) -> None:
        points = [Point(f"2.{at}.0", 1, 1) for at in range(40)]
        plot = curve_plot.draw(points)
        assert plot
        labels = [place.label for place in plot.places if place.label]
        self.assertLessEqual(len(labels), curve_plot.MOST_LABELS)
        self.assertEqual(labels[-1], "2.39.0")
