"""Runs that want a GPU, from the queue to the verdict, by a worker of its own.

With a driver that lists a GPU and a torch that reaches it (DOESITNAN_TEST_PYTHON), they
run there; elsewhere a file plays the driver and a stand-in torch the GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from unittest import skipUnless

from django.test import SimpleTestCase, tag

from runner.gpus.nvml import GpuError, Nvidia
from tests.runner.gpus.test_gpu_runs import CUDA_TORCH
from tests.runner.gpus.test_telemetry import ANSWERS
from tests.support import runs
from tests.support.sites import Site, is_alive, wait_for

SLUG, RAW = "9.9.0-cu130", "9.9.0+cu130"
# A site whose driver is a file.
PLAYED = """\
from pathlib import Path
from config.settings import *
from runner.gpus import nvml
from runner.gpus.nvml import Nvidia
from tests.support.nvml_answers import Recorded
nvml.Nvidia = lambda: Nvidia(Recorded(Path({path!r})))
"""
HANGS = """
import os, time
{work}
with open({marker!r}, "w") as file:
    file.write(str(os.getpid()))
while not os.path.exists({go!r}):
    time.sleep(0.05)
return {{"nonfinite": 1, "grad": 1.0}}
"""
# Holds memory and a kernel that ends after days.
KERNEL = """
import torch
held = torch.ones(2**28, device="cuda")
torch.cuda._sleep(2**60)
"""
ILLEGAL = """
import torch
wild = "extern \\"C\\" __global__ void wild(float* p) { p[1LL << 40] = 1; }"
kernel = torch.cuda._compile_kernel(wild, "wild")  # since 2.9
kernel(args=[torch.zeros(1, device="cuda")])
torch.cuda.synchronize()
return {"nonfinite": 1, "grad": 1.0}
"""
TORCH_OF = """
import json, sys
sys.path.insert(0, {root!r})
import torch
from portable.harness.identity import cuda_devices, identity
print(json.dumps([identity(torch, None), cuda_devices(torch, None)]))
"""


def gpus_here() -> list[str]:
    """UUIDs of those that the driver of this machine lists."""
    nvidia = Nvidia()
    try:
        with nvidia.session():
            return [gpu.uuid for gpu in nvidia.gpus()]
    except GpuError:
        return []


REAL_PYTHON = os.environ.get("DOESITNAN_TEST_PYTHON", "") if gpus_here() else ""


@tag("any_database", "long")
class GpuQueueTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = Site(self.folder / "var")
        self.addCleanup(self.site.close)
        self.site.migrate()
        if REAL_PYTHON:
            self.slug = self.use_gpu()
        else:
            self.slug = self.play_gpu()
        self.worker = self.site.start("-c", "2")
        wait_for(lambda: self.site.sql("SELECT 1 FROM runner_device"), "GPU offered")

    def play_gpu(self) -> str:
        settings = self.folder / "played_settings.py"
        settings.write_text(PLAYED.format(path=str(ANSWERS / "h200.json")))
        self.site.environ["DJANGO_SETTINGS_MODULE"] = settings.stem
        self.site.environ["PYTHONPATH"] = str(self.folder)
        python = runs.stand_in_torch(self.folder / "torch", RAW)
        (self.folder / "torch/lib/torch/__init__.py").write_text(CUDA_TORCH)
        return self.install(python, SLUG, RAW, [{"class": "cuda"}])

    def use_gpu(self) -> str:
        root = str(Path(__file__).parents[3])
        code = TORCH_OF.format(root=root)
        said = subprocess.run(
            [REAL_PYTHON, "-c", code], stdout=subprocess.PIPE, check=True
        ).stdout
        build, devices = json.loads(said)
        return self.install(Path(REAL_PYTHON), build["slug"], build["raw"], devices)

    def install(self, python: Path, slug: str, raw: str, devices: list[Any]) -> str:
        self.site.python(
            "runs.make_build(slug, raw)\n"
            "runs.install(python, slug, devices=devices)\n"
            "answer = 1",
            **{"python": str(python), "slug": slug, "raw": raw, "devices": devices},
        )
        return slug

    def submit(self, name: str, trigger: str) -> str:
        text = runs.source(device="cuda", trigger=trigger)
        found = self.site.python(
            "repro, build = runs.make_repro(text, name), runs.make_build(slug)\n"
            "answer = submission.submit(repro, build, 'cuda', 1).run.pk.hex",
            **{"text": text, "name": name, "slug": self.slug},
        )
        return str(found)

    def finished(self, pk: str, state: str = "finished") -> tuple[Any, ...]:
        wait_for(lambda: self.site.run_row(pk)[0] == state, f"run {state}")
        return self.site.run_row(pk)[1:3]

    def hanging(self, name: str, work: str = "") -> tuple[str, int, Path]:
        """A run whose trigger waits: its id, the check's pid, the file that ends it."""
        marker, go = self.folder / f"{name}-pid", self.folder / f"{name}-go"
        text = HANGS.format(marker=str(marker), go=str(go), work=work)
        pk = self.submit(name, text)
        wait_for(lambda: marker.exists() and marker.read_text(), f"{name} waits")
        return pk, int(marker.read_text()), go

    def test_a_run_is_woken_watched_and_judged(self) -> None:
        self.assertIn(f"{self.slug}.cuda", self.site.said)
        pk = self.submit("repro", "print('on the GPU')\nreturn {'nonfinite': 1}")
        self.assertEqual(self.finished(pk), ("bug_present", None))
        ((body,),) = self.site.sql("SELECT body FROM runner_evidence")
        evidence = json.loads(body)
        ((uuid,),) = self.site.sql("SELECT uuid FROM runner_device")
        self.assertEqual(evidence["telemetry"]["devices"][0]["uuid"], uuid)
        self.assertTrue(evidence["device"]["name"])
        said = [text for (text,) in self.site.sql("SELECT text FROM runner_logchunk")]
        self.assertIn("on the GPU", "".join(said))

    def test_of_two_that_want_the_one_gpu_the_second_waits(self) -> None:
        first, _pid, go = self.hanging("first")
        second = self.submit("second", "return {'nonfinite': 1, 'grad': 1.0}")
        on_cpu = self.site.submit(runs.source(), self.slug, "third")
        # The other slot is idle, and takes what needs no GPU.
        self.assertEqual(self.finished(on_cpu), ("bug_present", None))
        self.assertEqual(self.site.run_row(second)[0], "queued")
        go.touch()
        self.assertEqual(self.finished(first), ("bug_present", None))
        self.assertEqual(self.finished(second), ("bug_present", None))

    def cancelled(self, work: str = "") -> None:
        pk, check, _go = self.hanging("first", work)
        self.site.python("answer = jobs.cancel(Run.objects.get(pk=pk))", pk=pk)
        self.assertEqual(self.finished(pk, "cancelled"), (None, None))
        self.assertFalse(is_alive(check))
        after = self.submit("second", "return {'nonfinite': 1, 'grad': 1.0}")
        self.assertEqual(self.finished(after), ("bug_present", None))
        self.assertIsNone(self.worker.poll())

    def test_a_cancelled_run_frees_the_gpu_for_the_next(self) -> None:
        self.cancelled()

    @skipUnless(REAL_PYTHON, "needs a GPU and DOESITNAN_TEST_PYTHON")
    def test_one_that_is_cancelled_in_mid_kernel_gives_its_memory_back(self) -> None:
        before = self.used()
        self.cancelled(KERNEL)
        wait_for(lambda: self.used() <= before, "memory given back")

    @skipUnless(REAL_PYTHON, "needs a GPU and DOESITNAN_TEST_PYTHON")
    def test_an_illegal_access_spoils_that_check_alone(self) -> None:
        before = self.used()
        pk = self.submit("first", ILLEGAL)
        verdict, _reason = self.finished(pk)
        self.assertEqual(verdict, "error")
        states = self.site.sql("SELECT state FROM runner_device")
        after = self.submit("second", "return {'nonfinite': 1, 'grad': 1.0}")
        if states == [("ready",)]:
            self.assertEqual(self.finished(after), ("bug_present", None))
        else:  # Withdrawn, as the driver reported a fault: nothing starts there.
            self.assertEqual(states, [("quarantined",)])
            self.assertEqual(self.site.run_row(after)[0], "queued")
        wait_for(lambda: self.used() <= before, "memory given back")

    def used(self) -> int:
        """MiB in use on the first GPU."""
        nvidia = Nvidia()
        with nvidia.session():
            return int(nvidia.state(next(nvidia.gpus()))["memory_used"])
