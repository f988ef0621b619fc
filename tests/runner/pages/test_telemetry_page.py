"""What a run's page says of its telemetry, in words and without raw readings."""

from __future__ import annotations

from typing import Any

from django.test import SimpleTestCase
from django.utils.translation import override

from runner.evidence import telemetry as telemetry_page

LOST = {"error": "GpuIsLost"}
GPU: dict[str, Any] = {
    "uuid": "GPU-1",
    "name": "NVIDIA H200",
    "memory_total": 143771,
    "before": {"ecc": {"uncorrected_volatile": 0}},
    "during": {
        "memory_used": 9000,
        "power": 512.4,
        "temperature": 61,
        "clocks": {"sm": [345, 1980]},
        "throttle": ["sw_power_cap"],
        "samples": 7,
    },
    "after": {"ecc": {"uncorrected_volatile": 1}},
    "energy_used": 42.5,
}


class LinesTest(SimpleTestCase):
    def lines(self, lang: str, **telemetry: Any) -> list[str]:
        with override(lang):
            return list(telemetry_page.lines(telemetry))

    def test_a_gpu_in_one_line(self) -> None:
        gpu, driver = self.lines("en", driver="580.1", devices=[GPU])
        self.assertEqual(driver, "NVIDIA driver 580.1")
        self.assertEqual(
            gpu,
            "NVIDIA H200 · memory at most 9000 of 143771 MiB · power at most 512 W · "
            "temperature at most 61 °C · SM clock 345 to 1980 MHz · energy 42 J · "
            "clocks held back by sw_power_cap · "
            "uncorrected ECC errors 0 before, 1 after",
        )

    def test_what_was_not_told_is_left_out(self) -> None:
        gone = {**GPU, "name": LOST, "during": {"samples": 0}, "after": LOST}
        gpu, _ = self.lines(
            "en", driver="580.1", devices=[{**gone, "energy_used": LOST}]
        )
        self.assertEqual(gpu, "GPU-1")
        deaf = {
            **GPU,
            "during": {"power": LOST, "clocks": {"sm": LOST}, "throttle": LOST},
        }
        gpu, _ = self.lines("en", driver="580.1", devices=[deaf])
        self.assertNotIn("GpuIsLost", gpu)

    def test_no_driver_and_the_processor(self) -> None:
        cpu = {"peak_mib": 316, "cpu_s": 1.018}
        found = self.lines("zh-hans", driver={"error": "LibraryNotFound"}, cpu=cpu)
        self.assertEqual(found, ["处理器用时 1.0 秒，内存最高 316 MiB"])
        (said,) = self.lines("en", driver={"error": "DriverNotLoaded"})
        self.assertEqual(said, "The NVIDIA driver gave an error: DriverNotLoaded.")
        self.assertEqual(self.lines("en"), [])
