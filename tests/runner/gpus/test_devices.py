"""GPUs as NVML describes them, replayed from files; the lock that runs take on one."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.test import SimpleTestCase

from runner.gpus import devices, lock, nvml
from runner.gpus.nvml import GpuError, Nvidia, is_error
from tests import TESTS
from tests.support.nvml_answers import Recorded, Recorder

ANSWERS = TESTS / "nvml"
A100, H100 = (f"GPU-11111111-2222-3333-4444-55555555551{n}" for n in (0, 1))
SUBPROCESS_S = 60


def replayed(name: str) -> Nvidia:
    return Nvidia(Recorded(ANSWERS / f"{name}.json"))


def answers_of(name: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text())
    return answers


def form_of(answer: object) -> object:
    """Types instead of values; the same for lists and structures."""
    if isinstance(answer, dict):
        return {key: form_of(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [form_of(value) for value in answer]
    return type(answer)


class Nothing:
    """A host without a GPU."""

    def ask(self, function: str, *arguments: object) -> object:
        raise GpuError("LibraryNotFound")


class SnapshotTest(SimpleTestCase):
    def test_no_gpu_is_an_ordinary_state(self) -> None:
        missing = {"error": "LibraryNotFound"}
        expected = dict.fromkeys(("driver", "nvml", "cuda_driver", "devices"), missing)
        self.assertEqual(devices.snapshot(Nvidia(Nothing())), expected)
        with self.assertRaises(GpuError):
            devices.inventory(Nvidia(Nothing()))

    def test_the_library_of_this_machine_answers_in_the_same_form(self) -> None:
        found = devices.snapshot(Nvidia())
        self.assertEqual(set(found), {"driver", "nvml", "cuda_driver", "devices"})
        for value in found.values():
            self.assertTrue(is_error(value) or isinstance(value, (str, list)))

    def test_every_field_of_a_data_center_gpu(self) -> None:
        found = devices.snapshot(replayed("h200"))
        self.assertEqual(found["driver"], "580.159.03")
        self.assertEqual(found["cuda_driver"], "13.0")
        (gpu,) = found["devices"]
        expected = {
            "name": "NVIDIA H200",
            "architecture": "Hopper",
            "capability": "9.0",
            "memory_total": 143771,
            "memory_used": 4,
            "memory_free": 143767,
            "mig_mode": 0,
            "compute_mode": "default",
            "power": 76.543,
            "energy": 1234567.89,
            "temperature": 31,
            "clocks": {"graphics": 345, "sm": 345, "memory": 3201},
            "throttle": ["gpu_idle"],
            "remapped_rows": {
                "corrected": 0,
                "uncorrected": 0,
                "pending": 0,
                "failure": 0,
            },
            "processes": [],
            "gpu_instance": {"error": "InvalidArgument"},
        }
        self.assertEqual({key: gpu[key] for key in expected}, expected)
        self.assertEqual(gpu["ecc"]["corrected_aggregate"], 3)

    def test_what_was_composed_has_the_form_of_what_a_driver_said(self) -> None:
        """The recorded file is what the driver of an H200 answered."""
        composed, recorded = map(answers_of, ("h200", "h200_recorded"))
        self.assertNotIn("not recorded", recorded.pop("about"))
        (of_one,), (of_other,) = composed["devices"], recorded["devices"]
        self.assertEqual(of_one.keys(), of_other.keys())
        for name in of_one.keys() - {"nvmlDeviceGetComputeRunningProcesses"}:
            self.assertEqual(form_of(of_one[name]), form_of(of_other[name]), name)
        self.assertLessEqual(recorded.keys(), composed.keys())

    def test_a_driver_that_answered_leaves_no_field_without_a_value(self) -> None:
        found = devices.snapshot(replayed("h200_recorded"))
        (gpu,) = found["devices"]
        failed = {name for name, value in gpu.items() if is_error(value)}
        # These two are of instances of MIG, which was off.
        self.assertEqual(failed, {"gpu_instance", "compute_instance"})
        self.assertEqual((found["driver"], gpu["power"]), ("580.159.04", 121.121))
        self.assertEqual(gpu["memory_total"], 143771)

    def test_a_field_that_fails_takes_no_other_along(self) -> None:
        (gpu,) = devices.snapshot(replayed("geforce"))["devices"]
        unsupported = {"error": "NotSupported"}
        self.assertEqual(gpu["ecc"]["uncorrected_volatile"], unsupported)
        self.assertEqual(gpu["remapped_rows"], unsupported)
        self.assertEqual(gpu["mig_mode"], unsupported)
        # An older driver knows the reasons by their former name.
        self.assertEqual(gpu["throttle"], ["sw_power_cap"])
        self.assertEqual(gpu["processes"], [{"pid": 777, "memory": None}])
        self.assertEqual(gpu["memory_used"], 900)

    def test_of_a_gpu_in_mig_mode_runs_get_the_instances(self) -> None:
        rows = devices.inventory(replayed("mig"))
        self.assertEqual([row["uuid"][-2:] for row in rows], ["01", "02"])
        self.assertTrue(all(row["uuid"].startswith("MIG-") for row in rows))
        self.assertEqual({row["memory_mib"] for row in rows}, {20096})
        self.assertEqual({row["capability"] for row in rows}, {"8.0"})
        (first, _) = devices.snapshot(replayed("mig"))["devices"]
        self.assertEqual((first["gpu_instance"], first["mig_mode"]), (1, 1))
        self.assertEqual(first["ecc"]["uncorrected_volatile"], 0)

    def test_a_lost_gpu_hides_no_other(self) -> None:
        answers = json.loads((ANSWERS / "two_gpus.json").read_text())
        answers["devices"][0]["nvmlDeviceGetUUID"] = {"error": "GpuIsLost"}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(answers, file)
            file.flush()
            rows = devices.inventory(Nvidia(Recorded(Path(file.name))))
        self.assertEqual([row["uuid"] for row in rows], [H100])

    def test_what_the_environment_hides_is_not_offered(self) -> None:
        def seen(value: str | None) -> list[str]:
            changed = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
            with mock.patch.dict(os.environ, changed):
                if value is None:
                    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                return [row["uuid"] for row in devices.inventory(replayed("two_gpus"))]

        self.assertEqual(seen(None), [A100, H100])
        self.assertEqual(seen("1"), [H100])
        self.assertEqual(seen("1,0"), [H100, A100])
        self.assertEqual(seen(H100[:40]), [H100])
        self.assertEqual(seen(""), [])
        self.assertEqual(seen("-1,0"), [])
        self.assertEqual(seen("0,7,1"), [A100])

    def test_a_recording_replays_as_the_same(self) -> None:
        for name in ("two_gpus", "mig", "geforce"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                recorder = Recorder(Recorded(ANSWERS / f"{name}.json"))
                expected = devices.snapshot(Nvidia(recorder))
                path = Path(folder) / "answers.json"
                path.write_text(json.dumps(recorder.answers))
                self.assertEqual(devices.snapshot(Nvidia(Recorded(path))), expected)
                self.assertEqual(len(expected["devices"]), 1 + (name != "geforce"))

    def test_the_kernel_names_gpus_that_nvml_does_not(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "0000:01:00.0", "information")
            path.parent.mkdir()
            path.write_text(
                f"Model: \t NVIDIA H100\nIRQ:   \t 42\nGPU UUID: \t {H100}\n"
            )
            for place, uuids in ((Path(folder), [H100]), (Path(folder, "none"), [])):
                with mock.patch.object(nvml, "PROC_GPUS", place):
                    self.assertEqual(nvml.kernel_uuids(), uuids)


HOLDER = """
import subprocess, sys
from pathlib import Path
from runner.gpus import lock
held = lock.try_lock(Path(sys.argv[1]), [sys.argv[2]])
orphan = subprocess.Popen(
    ["sleep", "600"], pass_fds=held.descriptors, stdout=subprocess.DEVNULL
)
print(orphan.pid, flush=True)
sys.stdin.read()
"""


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class LockTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "locks"

    def locked(self, *uuids: str) -> bool:
        held = lock.try_lock(self.folder, uuids)
        if held:
            held.release()
        return held is None

    def test_one_at_a_time_and_all_or_nothing(self) -> None:
        first = lock.try_lock(self.folder, [H100])
        assert first
        self.assertTrue(self.locked(H100))
        self.assertTrue(self.locked(H100, A100))
        # What the attempt had of the other it gave back.
        self.assertFalse(self.locked(A100))
        first.release()
        self.assertFalse(self.locked(H100, A100))

    def test_a_full_disk_keeps_no_gpu(self) -> None:
        with mock.patch.object(os, "write", side_effect=OSError(28, "full")):
            held = lock.try_lock(self.folder, [H100])
        assert held
        self.assertTrue(self.locked(H100))
        held.release()
        self.assertFalse(self.locked(H100))

    def test_a_name_with_anything_in_it_stays_in_the_folder(self) -> None:
        held = lock.try_lock(self.folder, ["../../etc/GPU x"])
        assert held
        self.addCleanup(held.release)
        self.assertEqual(len(list(self.folder.iterdir())), 1)

    def test_who_waits_takes_the_first_that_is_free_and_says_so(self) -> None:
        busy = lock.try_lock(self.folder, [A100])
        assert busy
        held = lock.wait_for(self.folder, [[A100], [H100]])
        self.assertEqual(held.uuids, (H100,))
        said: list[str] = []
        answers = iter([False, False, True])
        with self.assertRaises(lock.Interrupted):
            lock.wait_for(
                self.folder,
                [[A100], [H100]],
                stopped=lambda: next(answers),
                waiting=said.append,
            )
        self.assertEqual(len(said), 1)
        self.assertIn(f"process {os.getpid()}", said[0])
        held.release()
        # Released while somebody waits: it goes on.
        again = lock.wait_for(
            self.folder, [[A100]], stopped=lambda: bool(busy.release())
        )
        self.assertEqual(again.uuids, (A100,))
        again.release()

    def test_an_orphan_of_a_killed_worker_keeps_the_gpu(self) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(self.folder), A100],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout
            orphan = int(worker.stdout.readline())
            self.addCleanup(kill, orphan)
            self.assertTrue(self.locked(A100))
            worker.kill()
            worker.wait(SUBPROCESS_S)
        self.assertTrue(self.locked(A100))
        kill(orphan)
        held = lock.wait_for(self.folder, [[A100]])
        held.release()
