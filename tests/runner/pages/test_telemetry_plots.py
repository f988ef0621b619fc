"""Telemetry over time: what is sampled and kept."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django.test import SimpleTestCase

from runner.gpus.series import LIMIT, Series


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
