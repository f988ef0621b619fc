"""Series of checks as plots: what is drawn, and what of values that are not finite."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django.test import SimpleTestCase
from django.utils.translation import override

from runner.gpus.series import LIMIT, Series
from runner.pages import telemetry as telemetry_page
from runner.pages.plot import BOTTOM, MAX_PLOTS, NONFINITE_Y, Plot, plots_of

NAN, INF = {"$float": "nan"}, {"$float": "-inf"}


def check(name: str, trial: int = 0, **observations: Any) -> dict[str, Any]:
    return {"name": name, "trial": trial, "observations": observations}


def plot(*checks: dict[str, Any]) -> Plot:
    (found,) = plots_of(checks)
    return found


class SeriesTest(SimpleTestCase):
    def test_loss_and_grad_norm_are_plots_of_their_own(self) -> None:
        found = plots_of(
            [
                check("control", loss=[3.0, 2.0, 1.0], grad_norm=[1.0, 1.0, 1.0], n=3),
                check("trigger", loss=[3.0, 3.0, 3.0], grad_norm=[0.0, 0.0, 0.0]),
                check("workaround_x", loss=[3.0, 2.0, 1.0]),
                check("refuted_y", loss=[3.0, 3.0, 3.0]),
            ]
        )
        self.assertEqual([row.key for row in found], ["loss", "grad_norm"])
        self.assertEqual([line.name for line in found[0].lines], ["ctl", "trg", "wa"])
        self.assertEqual([line.name for line in found[1].lines], ["ctl", "trg"])

    def test_what_is_not_finite_breaks_the_line_and_stands_above_the_scale(
        self,
    ) -> None:
        found = plot(check("trigger", loss=[3.0, 2.0, NAN, 1.5, INF, INF]))
        (line,) = found.lines
        self.assertEqual(len(line.stretches), 1)
        self.assertEqual(len(line.dots), 1)
        self.assertEqual(len(line.nonfinite), 3)
        (end,) = found.ends
        self.assertEqual((end.first, end.last, end.lost_at), ("3", "-inf", 3))
        for points in line.stretches:
            for pair in points.split():
                self.assertGreater(float(pair.split(",")[1]), NONFINITE_Y)

    def test_a_series_that_never_was_finite_is_drawn_too(self) -> None:
        found = plot(check("trigger", loss=[NAN, NAN, NAN]))
        self.assertEqual(found.lines[0].stretches, [])
        self.assertEqual(found.ends[0].lost_at, 1)

    def test_numbers_alone_and_texts_are_no_series(self) -> None:
        row = check("trigger", a=[1.0, 2.0], b=["x", "y", "z"], c=[True, False, True])
        self.assertEqual(plots_of([row, check("control", d=1.0)]), [])

    def test_numbers_beyond_a_float_are_no_series(self) -> None:
        for odd in (10**400, 1e305, {"$float": "x"}, {"$float": None}, None):
            self.assertEqual(plots_of([check("trigger", loss=[1.0, 2.0, odd])]), [])
        plot(check("trigger", loss=[1e299, -1e299, 0.0]))

    def test_of_several_trials_the_first_is_drawn(self) -> None:
        found = plot(
            check("trigger", loss=[1.0, 2.0, 3.0]),
            check("trigger", trial=1, loss=[9.0, 9.0, 9.0]),
        )
        self.assertEqual(found.ends[0].last, "3")

    def test_the_page_does_not_fill_with_plots(self) -> None:
        many = {f"k{number}": [1.0, 2.0, 3.0] for number in range(9)}
        self.assertEqual(len(plots_of([check("trigger", **many)])), MAX_PLOTS)

    def test_a_constant_lies_within_the_axes(self) -> None:
        for value in (0.0, 5.0, -1e30, 1e-30):
            (line,) = plot(check("trigger", loss=[value] * 4)).lines
            for pair in line.stretches[0].split():
                self.assertLess(float(pair.split(",")[1]), BOTTOM)


def reading(memory: Any = 100, power: Any = 300.0) -> dict[str, Any]:
    return {
        "memory_used": memory,
        "power": power,
        "temperature": 50,
        "clocks": {"sm": 1980, "memory": 2619},
    }


class TelemetrySeriesTest(SimpleTestCase):
    def test_samples_are_kept_against_seconds(self) -> None:
        series = Series()
        for number in range(4):
            series.take("GPU-1", number * 0.2, reading(memory=100 + number))
        found = series.of("GPU-1")
        self.assertEqual(found["at"], [0.0, 0.2, 0.4, 0.6])
        self.assertEqual(found["memory_used"], [100, 101, 102, 103])
        self.assertEqual(found["sm_clock"], [1980] * 4)
        self.assertEqual(series.of("GPU-2"), {})

    def test_a_long_run_is_thinned_out_over_its_whole_length(self) -> None:
        series = Series()
        for number in range(10 * LIMIT):
            series.take("GPU-1", float(number), reading())
        at = series.of("GPU-1")["at"]
        self.assertLess(len(at), LIMIT)
        self.assertGreater(len(at), LIMIT // 4)
        self.assertEqual(at[0], 0.0)
        self.assertGreater(at[-1], 9.5 * LIMIT)
        self.assertEqual(len({late - early for early, late in pairwise(at)}), 1)

    def test_what_nvml_refuses_is_left_out(self) -> None:
        series = Series()
        refused = {"error": "NotSupported"}
        for at, power in enumerate((refused, refused, refused)):
            series.take("GPU-1", at, reading(power=power))
        self.assertNotIn("power", series.of("GPU-1"))

    def test_a_gpu_has_a_plot_per_quantity_that_was_read(self) -> None:
        series = Series()
        for at in range(5):
            series.take("GPU-1", at, reading(power={"error": "NotSupported"}))
        gpu = {"uuid": "GPU-1", "series": series.of("GPU-1")}
        with override("en"):
            found = list(telemetry_page.plots({"devices": [gpu]}))
        words = [text for text, _plot in found]
        self.assertEqual(words, ["memory, MiB", "temperature, °C", "SM clock, MHz"])
        self.assertEqual([tick.label for tick in found[0][1].x_ticks], ["0", "2", "4"])

    def test_evidence_without_samples_has_no_plot(self) -> None:
        for telemetry in ({}, {"devices": [{"uuid": "GPU-1"}]}, {"devices": None}):
            self.assertEqual(list(telemetry_page.plots(telemetry)), [])

    def test_telemetry_from_elsewhere_breaks_no_page(self) -> None:
        odd: list[Any] = [None, "x", True, {}, [], 1e300, 10**400, NAN]
        for series in (*odd, {"at": "x"}, {"at": odd, "power": odd}, {"at": [1, 1, 1]}):
            gpu = {"uuid": "GPU-1", "series": series}
            self.assertEqual(list(telemetry_page.plots({"devices": [gpu]})), [])
        same = {"at": [1, 1, 1], "power": [5, 5, 5]}
        gpu = {"uuid": "GPU-1", "series": same}
        self.assertEqual(len(list(telemetry_page.plots({"devices": [gpu]}))), 1)
