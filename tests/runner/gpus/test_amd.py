"""AMD's GPUs by composed answers of AMD SMI: nobody has seen this on hardware."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import SimpleTestCase

from runner.gpus import amd, devices, vendors
from runner.gpus.gpu_run import visible_names
from runner.gpus.telemetry import GpuMonitor
from runner.gpus.vendor import GpuError
from tests import TESTS

ANSWERS = TESTS / "amdsmi" / "mi300x.json"
# As HIP numbers them; the library lists them the other way round.
FIRST = "GPU-b4ff74a1-0000-1000-80bb-d6e9a1e3c702"
SECOND = "GPU-96ff74a1-0000-1000-80bb-d6e9a1e3c701"


class AmdTest(SimpleTestCase):
    def setUp(self) -> None:
        self.vendor = vendors.vendor_here(str(ANSWERS))
        for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
            patch = mock.patch.dict(os.environ)
            patch.start()
            self.addCleanup(patch.stop)
            os.environ.pop(name, None)

    def test_every_field_of_a_gpu(self) -> None:
        found = devices.snapshot(self.vendor)
        self.assertEqual((found["driver"], found["amdsmi"]), ("6.12.12", "26.0.2"))
        gpu = found["devices"][1]
        expected: dict[str, Any] = {
            "uuid": SECOND,
            "name": "AMD Instinct MI300X",
            "architecture": "gfx942",
            "memory_total": 196592,
            "memory_used": 300,
            "memory_free": 196292,
            "power": 141.0,
            "temperature": 41,
            "clocks": {"graphics": 132, "sm": 132, "memory": 900},
            "energy": 61.036,
            "ecc": {"corrected_volatile": 2, "uncorrected_volatile": 0},
            "remapped_rows": {"retired_pages": 0},
            "processes": [{"pid": 777, "memory": 512}],
            "throttle": {"error": "NotSupported"},
        }
        self.assertEqual({key: gpu[key] for key in expected}, expected)

    def test_a_field_that_fails_takes_no_other_along(self) -> None:
        gpu = devices.snapshot(self.vendor)["devices"][0]
        self.assertEqual(gpu["ecc"], {"error": "Error2"})
        # A model that knows only the average.
        self.assertEqual(gpu["power"], 118.0)

    def test_runs_get_gpus_without_a_capability_of_cuda(self) -> None:
        rows = devices.inventory(self.vendor)
        self.assertEqual([row["uuid"] for row in rows], [FIRST, SECOND])
        self.assertEqual({row["capability"] for row in rows}, {""})
        self.assertEqual({row["memory_mib"] for row in rows}, {196592})

    def test_what_the_environment_hides_is_not_offered(self) -> None:
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        self.assertEqual(self.uuids(), [FIRST])
        os.environ["HIP_VISIBLE_DEVICES"] = "1"
        self.assertEqual(self.uuids(), [SECOND])

    def uuids(self) -> list[str]:
        return [row["uuid"] for row in devices.inventory(self.vendor)]

    def test_a_run_is_shown_the_numbers_that_hip_gives(self) -> None:
        self.assertEqual(visible_names(self.vendor, [SECOND]), "1")
        self.assertEqual(visible_names(self.vendor, [SECOND, FIRST]), "1,0")

    def test_a_run_is_watched(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "answers.json")
            answers = json.loads(ANSWERS.read_text())
            path.write_text(json.dumps(answers))
            with GpuMonitor(vendors.vendor_here(str(path)), [SECOND]) as monitor:
                answers["devices"][0]["amdsmi_get_gpu_total_ecc_count"] = {
                    "correctable_count": 2,
                    "uncorrectable_count": 1,
                }
                path.write_text(json.dumps(answers))
            problem = monitor.problem()
        assert problem
        self.assertEqual((problem.reason, problem.uuid), ("device_health", SECOND))
        self.assertIn("uncorrected, volatile", problem.text)
        (gpu,) = monitor.report()["devices"]
        self.assertEqual(gpu["energy_used"], 0)
        self.assertEqual(gpu["during"]["memory_used"], 300)


class HostTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        patch = mock.patch.object(amd, "DEVICES", self.folder)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_host_without_amd_says_so_and_shows_no_files(self) -> None:
        vendor = amd.Amd()
        with self.assertRaisesMessage(GpuError, "DriverNotLoaded"), vendor.session():
            pass
        self.assertEqual(vendor.device_nodes(""), [])

    def test_a_run_gets_the_files_of_the_driver(self) -> None:
        (self.folder / "dri").mkdir()
        for name in ("kfd", "dri/renderD128", "dri/renderD129", "dri/card0"):
            (self.folder / name).touch()
        files = [Path(node).name for node in vendors.device_nodes("1")]
        self.assertEqual(files[-3:], ["kfd", "renderD128", "renderD129"])

    def test_a_driver_without_its_python_package_is_named(self) -> None:
        (self.folder / "kfd").touch()
        with self.assertRaisesMessage(GpuError, "BindingsNotInstalled"):
            amd.Live().ask("amdsmi_init")

    def test_without_any_library_it_is_nvidias_absence_that_is_told(self) -> None:
        self.assertEqual(vendors.vendor_here().name, "nvidia")
