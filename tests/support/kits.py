"""Kits in tests: made of rows, started by a stand-in for torch, killed, resumed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from django.test import TestCase

from runner.takeaway import sweeps, telling, wheels
from runner.takeaway.doctor import published_repros
from runner.takeaway.kit import Kit
from tests.support import nvml_answers, runs

RECORDED = Path(__file__).parents[1] / "nvml" / "h200.json"
CHECKS = runs.CHECKS.partition("\n\ndef workaround_off")[0]
TGKILL = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
WAITS = "open({path!r}).read()\nreturn {{'nonfinite': 0, 'grad': 1.0}}"
# Only says that it has a GPU, under the UUID of tests/nvml/h200.json.
WITH_GPU = """
from types import SimpleNamespace as N
__version__ = "9.9.0+cu130"
version = N(cuda="13.0", hip=None, git_version="0" * 40)
GPU = N(name="TEST GPU", major=9, minor=0, total_memory=2**36, uuid={uuid!r})
cuda = N(
    is_available=lambda: True,
    device_count=lambda: 1,
    get_device_properties=lambda index: GPU,
)
backends = N(cudnn=N(version=lambda: 91900))
"""

# Only says that it has a device of a kind that is no GPU of CUDA, and where tensors are
# made. No backend has been tested on its hardware.
WITH_NPU = """
from types import SimpleNamespace as N
__version__ = "9.9.0"
version = N(cuda=None, hip=None, git_version="0" * 40)
cuda = N(is_available=lambda: False)
backends = N(cudnn=N(version=lambda: None), mps=N(is_available=lambda: False))
npu = N(
    is_available=lambda: True,
    device_count=lambda: 1,
    get_device_name=lambda index: "TEST NPU",
)
made_on = "cpu"


def set_default_device(name):
    global made_on
    made_on = name
"""
ANYWHERE = """
import torch


def control():
    return {"nonfinite": 0, "grad": 1.0}


def detector():
    return {"nonfinite": 1}


def trigger():
    return {"nonfinite": int(torch.made_on == "npu"), "grad": 1.0}
"""


def for_any_device(body: str = ANYWHERE) -> str:
    """A repro whose bug shows where tensors are made on an NPU."""
    text = runs.source(body)
    return text.replace('device = "cpu"', 'device = "cpu"\n# any_device = true')


class KitCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(
            self.enterContext(tempfile.TemporaryDirectory(prefix="a kit "))
        )
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()
        self.python = str(runs.stand_in_torch(self.folder))

    def add(self, record: str, **options: Any) -> None:
        body = options.pop("body", CHECKS)
        text = runs.source(body, **options).replace("NAN-9001", record)
        runs.make_repro(text, "repro", record)

    def make(self, *found: wheels.Wheel) -> Path:
        repros = published_repros()
        names = [wheel.path.name for wheel in found]
        made = Kit(
            repros,
            telling.of_repros(repros),
            {repro.pk: names for repro in repros},
            found,
            {"torch": "", "python": ""},
            sweeps.of_repros(repros),
        )
        made.write(self.folder / "kit.zip")
        return self.folder / "kit.zip"

    def start(self, *arguments: str, prefix: tuple[str, ...] = ()) -> Any:
        process = subprocess.Popen(
            [*prefix, self.python, "kit.zip", "--lang", "en", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "TMPDIR": str(self.scratch)},
            cwd=self.folder,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_kit(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        self.assertNotIn("Traceback", err)
        self.assertEqual(list(self.scratch.iterdir()), [], "something was left behind")
        return process.returncode, out, err

    def whole(self, name: str = "evidence.json") -> Any:
        return json.loads((self.folder / name).read_text())

    def finished(self) -> list[str]:
        rows = self.whole()["results"]
        return [row["record"] for row in rows if row["evidence"]]

    def killed_at(self, record: str, *prefix: str) -> None:
        """Start it, kill it once it is at the control of `record`, which waits."""
        pipe = self.folder / record
        os.mkfifo(pipe, 0o644)
        process = self.start("--resume", "evidence.json", prefix=prefix)
        self.until(process, f"{record} repro")
        process.kill()
        process.wait()
        pipe.unlink()
        pipe.write_text("")

    def until(self, process: Any, words: str) -> None:
        """Read what it tells until it says so."""
        said = []
        for line in process.stderr:
            said.append(line)
            if words in line:
                return
        self.fail("".join(said))

    def interrupt(self, process: Any) -> None:
        """Ctrl-C, given to a thread that cannot heed it, as the kernel may choose."""
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        worker = max(int(task.name) for task in tasks)
        self.assertNotEqual(worker, process.pid)
        ctypes.CDLL(None).syscall(TGKILL, process.pid, worker, signal.SIGINT)

    def put_npu(self) -> None:
        (self.folder / "lib" / "torch" / "__init__.py").write_text(WITH_NPU)

    def put_gpu(self) -> str:
        """Give the stand-in a GPU; its UUID in the recorded answers of NVML."""
        facts = json.loads(RECORDED.read_text())["devices"][0]
        uuid = str(facts["nvmlDeviceGetUUID"])
        torch = self.folder / "lib" / "torch" / "__init__.py"
        torch.write_text(WITH_GPU.format(uuid=uuid.removeprefix("GPU-")))
        return uuid

    def run_on_gpu(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The kit's own program, with NVML answering as it was recorded."""
        script = f"""
            import os, pathlib, runpy, sys
            names = runpy.run_path("kit.zip")
            folder = os.path.join({str(self.scratch)!r}, "doesitnan-x")
            for name, text in names["PARTS"].items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, "w").write(text)
            sys.path.insert(0, folder)
            sys.argv[0] = "kit.zip"
            import node, kit
            played = runpy.run_path({nvml_answers.__file__!r})["Recorded"]
            played = node.nvml.Nvidia(played(pathlib.Path({str(RECORDED)!r})))
            node.nvml.Nvidia = lambda: played
            sys.exit(kit.main(folder, [*{list(arguments)!r}, "--lang", "en"]))
        """
        return subprocess.run(
            [self.python, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            timeout=300,
        )
