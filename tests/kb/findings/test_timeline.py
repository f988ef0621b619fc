"""When a bug came and went, on one axis: order, ranges, observations, places."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from django.test import SimpleTestCase
from django.utils.translation import override

from kb.findings import timeline
from kb.findings.results import Cell
from kb.findings.timeline import MAX_POINTS, Band, Timeline
from kb.models import Record
from kb.pages import timeline_plot

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def cell(raw: str, verdict: str = "bug_present", device: str = "cpu") -> Cell:
    hits = int(verdict == "bug_present")
    slug = raw.replace("+", "-")
    return Cell(slug, raw, device, verdict, "", hits, 1, "upstream_bug", "", MOMENT)


def torch(*events: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"package": "torch", "events": list(events), "source": "s", **more}


def fix(version: str, kind: str = "root_fix", package: str = "torch") -> dict[str, Any]:
    return {"kind": kind, "package": package, "version": version, "source": "s"}


def axes(
    affected: list[dict[str, Any]], fixes: list[dict[str, Any]], *cells: Cell
) -> list[Timeline]:
    record = Record(id="NAN-9001", affected=affected, fixes=fixes)
    return timeline.of_record(record, list(cells))


LISTED = [{"raw": "2.7.0", "state": "affected"}]
RANGE = torch({"introduced": "2.5.0"}, {"fixed": "2.5.1"})


class AxisTest(SimpleTestCase):
    def test_documented_and_observed_share_the_place_of_their_version(self) -> None:
        (axis,) = axes(
            [RANGE], [fix("2.5.1", "avoided_by_default")], cell("2.5.1+cu124")
        )
        self.assertEqual([point.label for point in axis.points], ["2.5.0", "2.5.1"])
        first, second = axis.points
        self.assertEqual([mark.kind for mark in first.marks], ["introduced"])
        self.assertEqual([mark.kind for mark in second.marks], ["avoided_by_default"])
        self.assertEqual([len(point.observed) for point in axis.points], [0, 1])
        self.assertEqual([point.affected for point in axis.points], [True, False])

    def test_the_end_of_a_range_is_no_fix(self) -> None:
        (axis,) = axes([RANGE], [])
        self.assertEqual([mark.kind for mark in axis.points[1].marks], ["end"])

    def test_versions_are_ordered_as_versions(self) -> None:
        raws = ["2.10.0+cpu", "2.9.0", "1.13.1", "2.6.0a0+df5bbc09d1.nv24.12"]
        (axis,) = axes([], [], *map(cell, raws))
        labels = [point.label for point in axis.points]
        self.assertEqual(labels, ["1.13.1", "2.6.0a0", "2.9.0", "2.10.0"])

    def test_ranges_that_are_open_or_hold_their_last_version(self) -> None:
        (axis,) = axes([torch({"introduced": "0"})], [], cell("2.13.0"))
        self.assertEqual(axis.bands, [Band(None, None)])
        self.assertTrue(axis.points[0].affected)
        entry = torch({"introduced": "2.1.0"}, {"last_affected": "2.3.0"})
        (axis,) = axes([entry], [], cell("2.4.0", "bug_absent"))
        self.assertEqual(axis.bands, [Band(0, 1, closed=True)])
        self.assertEqual([p.affected for p in axis.points], [True, True, False])

    def test_a_pre_release_and_a_listed_build_are_not_placed_in_a_range(self) -> None:
        listed = torch({"introduced": "2.5.0"}, builds=LISTED)
        (axis,) = axes([listed], [], cell("2.6.0a0+df5bbc09d1"), cell("2.8.0"))
        said = {point.label: point.affected for point in axis.points}
        wanted = {"2.5.0": True, "2.6.0a0": None, "2.7.0": None, "2.8.0": True}
        self.assertEqual(said, wanted)

    def test_a_bug_that_came_twice_has_two_ranges(self) -> None:
        events = [{"introduced": "2.1.0"}, {"fixed": "2.2.0"}, {"introduced": "2.4.0"}]
        (axis,) = axes([torch(*events)], [])
        self.assertEqual(axis.bands, [Band(0, 1), Band(2, None)])

    def test_flips_are_marked_where_neighbours_disagree(self) -> None:
        cells = [
            cell("2.1.0", "bug_absent"),
            cell("2.2.0"),
            cell("2.3.0", "bug_absent"),
        ]
        (axis,) = axes([], [], *cells)
        flips = [seen.flip for point in axis.points for seen in point.observed]
        self.assertEqual(flips, ["", "first_bad", "first_good"])

    def test_repros_that_disagree_on_one_build_are_no_flip(self) -> None:
        fixed = replace(cell("2.2.0", "bug_absent"), repro="repro_fixed")
        (axis,) = axes([RANGE], [], cell("2.2.0"), fixed, cell("2.3.0"))
        seen = [seen for point in axis.points for seen in point.observed]
        self.assertEqual([one.flip for one in seen], ["", "", ""])

    def test_what_is_no_verdict_is_no_observation(self) -> None:
        found = axes(
            [RANGE], [], cell("2.6.0", "error"), cell("2.7.0", "not_applicable")
        )
        self.assertEqual([p.label for p in found[0].points], ["2.5.0", "2.5.1"])

    def test_other_packages_have_axes_of_their_own_without_observations(self) -> None:
        other = {"package": "fla", "events": [{"introduced": "0"}, {"fixed": "0.1"}]}
        found = axes([other], [fix("0.1", package="fla")], cell("2.1.0"), cell("2.2.0"))
        self.assertEqual([axis.package for axis in found], ["torch", "fla"])
        self.assertEqual(found[1].devices, [])
        self.assertEqual(found[1].bands, [Band(None, 0)])

    def test_one_mark_alone_and_fixes_without_a_version_draw_nothing(self) -> None:
        self.assertEqual(axes([], [fix(""), fix("2.15.0")]), [])

    def test_commits_have_no_place(self) -> None:
        entry = torch(
            {"introduced": "0"}, {"fixed": "aa583eb7822893c07ec7d9e2c63692b2"}
        )
        (axis,) = axes([entry], [], cell("2.1.0"), cell("2.2.0"))
        self.assertEqual(axis.bands, [])

    def test_equal_neighbours_fold_where_there_are_too_many(self) -> None:
        cells = [cell(f"2.{n}.0") for n in range(20)]
        cells += [cell("2.20.0", "bug_absent"), cell("2.21.0", "bug_absent")]
        (axis,) = axes([torch({"introduced": "2.7.0"})], [], *cells)
        labels = [point.label for point in axis.points]
        self.assertLessEqual(len(labels), MAX_POINTS)
        for kept in ("2.0.0", "2.7.0", "2.19.0", "2.20.0", "2.21.0"):
            self.assertIn(kept, labels)


class PlotTest(SimpleTestCase):
    def plot(self, lang: str = "en") -> timeline_plot.TimelinePlot:
        entry = torch(
            {"introduced": "2.5.0"}, builds=[{"raw": "2.5.0", "state": "affected"}]
        )
        fixes = [
            fix("2.5.1", "avoided_by_default"),
            fix("2.6.0"),
            fix("2.7.0", "removed"),
        ]
        cells = [
            cell("2.5.0"),
            cell("2.5.0+cu124", "bug_absent"),
            cell("2.7.0", device="cuda"),
        ]
        (axis,) = axes([entry], fixes, *cells)
        with override(lang):
            return timeline_plot.draw(axis)

    def test_no_words_touch_others_or_cross_their_stems(self) -> None:
        for lang in ("en", "zh-hans"):
            labels = self.plot(lang).labels
            self.assertGreaterEqual(len(labels), 5)
            boxes = [
                (item.x, item.x + timeline_plot.width_of(item.text), item.y)
                for item in labels
            ]
            for one, other in combinations(boxes, 2):
                apart = one[1] < other[0] or other[1] < one[0]
                self.assertTrue(apart or one[2] != other[2], (one, other))
            for left, right, y in boxes:
                for stem, _end, top in boxes:
                    crossed = left < stem < right and top < y
                    self.assertFalse(crossed, (lang, left, stem))

    def test_everything_is_inside(self) -> None:
        plot = self.plot()
        for label in plot.labels:
            end = label.x + timeline_plot.width_of(label.text)
            self.assertLessEqual(end, timeline_plot.WIDTH)
        for row in plot.shown:
            self.assertLess(row.y, plot.height)
            self.assertGreater(row.y, plot.axis_y)

    def test_builds_of_one_version_that_disagree_are_both_shown(self) -> None:
        first = [
            row for row in self.plot().shown if row.seen.cell.device_class == "cpu"
        ]
        verdicts = {row.seen.cell.verdict for row in first}
        self.assertEqual(verdicts, {"bug_present", "bug_absent"})
        self.assertEqual(len({row.x for row in first}), 2)

    def test_each_device_class_has_its_lane(self) -> None:
        plot = self.plot()
        self.assertEqual([lane.device for lane in plot.lanes], ["cpu", "cuda"])
        self.assertNotEqual(plot.lanes[0].y, plot.lanes[1].y)
