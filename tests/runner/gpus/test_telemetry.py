"""What NVML, played from a file, says of a GPU before, during and after a run."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.test import (
    SimpleTestCase,
)

from runner.gpus import telemetry
from runner.gpus.gpu_run import HostGpus
from runner.gpus.nvml import GpuError, Nvidia
from runner.gpus.telemetry import GpuMonitor
from tests import TESTS
from tests.support.nvml_answers import Recorded

ANSWERS = TESTS / "nvml"
H200 = "GPU-11111111-2222-3333-4444-555555555501"
A100, H100 = (f"GPU-11111111-2222-3333-4444-55555555551{n}" for n in (0, 1))
MIB = 1024 * 1024
MEMORY, ECC = "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTotalEccErrors(1,0)"


class Played(SimpleTestCase):
    """A host whose GPU changes under way, as the tests say."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / "answers.json"
        self.play("h200")

    def play(self, name: str) -> None:
        self.answers = json.loads((ANSWERS / f"{name}.json").read_text())
        self.write()

    def write(self) -> None:
        # Never half a file: another thread may be reading.
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.answers))
        new.rename(self.path)

    def change(self, index: int = 0, **answers: Any) -> None:
        self.answers["devices"][index].update(answers)
        self.write()

    def use(self, used: int, index: int = 0) -> None:
        """So many MiB of the GPU are in use from now on."""
        memory = dict(self.answers["devices"][index][MEMORY])
        memory.update(used=used * MIB, free=memory["total"] - used * MIB)
        self.change(index, **{MEMORY: memory})

    def rig(self, **fields: Any) -> HostGpus:
        return HostGpus(self.folder / "locks", Nvidia(Recorded(self.path)), **fields)


class WatchTest(Played):
    def watch(
        self, during: Callable[[], None], after: Callable[[], None]
    ) -> GpuMonitor:
        watch = GpuMonitor(Nvidia(Recorded(self.path)), [H200])
        with watch:
            during()
            seen = watch.samples
            while watch.samples < seen + 2:
                threading.Event().wait(0.01)
            after()
        return watch

    def test_before_peak_and_after(self) -> None:
        def busy() -> None:
            self.use(9000)
            self.change(
                nvmlDeviceGetPowerUsage=512000,
                nvmlDeviceGetCurrentClocksEventReasons=0x24,
                **{"nvmlDeviceGetClockInfo(1)": 1980},
            )

        def over() -> None:
            self.use(4)
            self.change(nvmlDeviceGetTotalEnergyConsumption=1234567890 + 42500)

        watch = self.watch(busy, over)
        self.assertIsNone(watch.problem())
        report = watch.report()
        self.assertEqual(report["driver"], "580.159.03")
        (gpu,) = report["devices"]
        self.assertEqual((gpu["uuid"], gpu["capability"]), (H200, "9.0"))
        memory = [gpu[when]["memory_used"] for when in ("before", "during", "after")]
        self.assertEqual(memory, [4, 9000, 4])
        self.assertEqual(gpu["during"]["power"], 512.0)
        self.assertEqual(gpu["during"]["clocks"]["sm"], [345, 1980])
        self.assertLessEqual(
            {"sw_power_cap", "sw_thermal_slowdown"}, set(gpu["during"]["throttle"])
        )
        self.assertEqual(gpu["energy_used"], 42.5)
        self.assertGreaterEqual(gpu["during"]["samples"], 2)
        self.assertEqual(gpu["before"]["processes"], 0)
        json.dumps(report, allow_nan=False)

    def test_memory_that_comes_back_late_is_no_fault(self) -> None:
        self.use(4)
        later = threading.Timer(0.5, self.use, [4])
        watch = self.watch(lambda: self.use(9000), later.start)
        self.assertIsNone(watch.problem())
        (gpu,) = watch.report()["devices"]
        self.assertEqual(gpu["after"]["memory_used"], 4)

    def test_a_gpu_that_goes_away_is_lost(self) -> None:
        def go() -> None:
            self.answers["devices"] = []
            self.write()

        problem = self.watch(go, lambda: None).problem()
        assert problem
        self.assertEqual((problem.reason, problem.uuid), ("device_lost", H200))

    def test_one_that_was_not_listed_before_is_no_fault(self) -> None:
        self.play("two_gpus")
        late = self.answers["devices"].pop()
        self.write()
        watch = GpuMonitor(Nvidia(Recorded(self.path)), [A100, H100])
        with watch:
            self.answers["devices"].append(late)
            self.write()
        self.assertEqual((len(watch.before), len(watch.after)), (1, 2))

    def test_without_nvml_there_is_nothing_to_say(self) -> None:
        class Nothing:
            def ask(self, function: str, *arguments: object) -> object:
                raise GpuError("DriverNotLoaded")

        with GpuMonitor(Nvidia(Nothing()), [H200]) as watch:
            pass
        self.assertIsNone(watch.problem())
        self.assertEqual(watch.report()["driver"], {"error": "DriverNotLoaded"})


class HealthTest(Played):
    def reading(self) -> dict[str, Any]:
        nvidia = Nvidia(Recorded(self.path))
        with nvidia.session():
            (gpu,) = nvidia.gpus()
            return nvidia.state(gpu)

    def verdict(self, **answers: Any) -> tuple[str, str] | None:
        before = self.reading()
        self.change(**answers)
        return telemetry.health(before, self.reading())

    def test_what_stays_is_well(self) -> None:
        self.assertIsNone(self.verdict(nvmlDeviceGetPowerUsage=700000))

    def test_new_ecc_errors(self) -> None:
        found = self.verdict(**{ECC: 2})
        self.assertEqual(
            found,
            (
                "device_health",
                "ECC errors (uncorrected, volatile): 0 before, 2 after",
            ),
        )

    def test_remapped_rows(self) -> None:
        found = self.verdict(nvmlDeviceGetRemappedRows=[0, 1, 1, 0])
        assert found
        self.assertEqual(found[0], "device_health")
        self.assertIn("remapped rows (pending): 0 before, 1 after", found[1])

    def test_a_counter_that_cannot_be_read_accuses_nobody(self) -> None:
        self.assertIsNone(self.verdict(**{ECC: {"error": "NotSupported"}}))
        self.assertIsNone(self.verdict(**{ECC: 5}))

    def test_memory_that_stays_taken(self) -> None:
        before = self.reading()
        self.use(4 + telemetry.TOLERANCE_MIB)
        self.assertIsNone(telemetry.health(before, self.reading()))
        self.use(5 + telemetry.TOLERANCE_MIB)
        found = telemetry.health(before, self.reading())
        self.assertEqual(
            found, ("device_health", "129 MiB of its memory were not given back")
        )

    def test_what_a_process_from_before_takes_is_its_own(self) -> None:
        def listed(*rows: tuple[int, int]) -> list[dict[str, int]]:
            return [{"pid": pid, "usedGpuMemory": mib * MIB} for pid, mib in rows]

        name = "nvmlDeviceGetComputeRunningProcesses"
        self.change(**{name: listed((4242, 512))})
        before = self.reading()
        self.use(2000)
        self.change(**{name: listed((4242, 2500))})
        self.assertIsNone(telemetry.health(before, self.reading()))
        # One that came with the run may be the run's own.
        self.change(**{name: listed((4242, 512), (4343, 1996))})
        self.assertIsNotNone(telemetry.health(before, self.reading()))
