"""The kit: reviewed repros in one file, on a node without a network."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import textwrap
import zipfile
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command
from django.test import TestCase

from runner.models import Evidence
from runner.takeaway import telling, wheels
from runner.takeaway.doctor import published_repros
from runner.takeaway.kit import TooLarge, kit
from runner.takeaway.programs import schedule
from tests.support import runs
from tests.support.ordinary_user import NOBODY, ordinary

ROOT = Path(__file__).parents[3]
CHECKS = runs.CHECKS.partition("\n\ndef workaround_off")[0]
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


class KitTest(TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="a kit ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
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
        made = kit(
            repros,
            telling.of_repros(repros),
            {repro.pk: names for repro in repros},
            found,
            {"torch": "", "python": ""},
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
        said = []
        for line in process.stderr:
            said.append(line)
            if f"{record} repro · control" in line:
                break
        else:
            self.fail("".join(said))
        process.kill()
        process.wait()
        pipe.unlink()
        pipe.write_text("")

    def test_an_ordinary_user_without_network_is_killed_twice(self) -> None:
        user = ordinary(self.python)
        for record in ("NAN-9002", "NAN-9003"):
            self.add(record, control=WAITS.format(path=str(self.folder / record)))
        self.add("NAN-9001")
        self.add("NAN-9004", device="cuda")
        self.make()
        user.own(self.folder)
        self.killed_at("NAN-9002", *user.prefix)
        self.assertEqual(self.finished(), ["NAN-9001"])
        first = self.whole()["results"][0]["evidence"]["digest"]
        self.killed_at("NAN-9003", *user.prefix)
        self.assertEqual(self.finished(), ["NAN-9001", "NAN-9002"])
        process = self.start("--resume", "evidence.json", prefix=user.prefix)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("Kept of evidence.json and not run again: 2", out)
        self.assertIn("torch sees no GPU here", out)
        self.assertIn("manage.py load_evidence evidence.json --origin NAME", out)
        whole = self.whole()
        self.assertTrue(whole["complete"])
        self.assertEqual(whole["results"][0]["evidence"]["digest"], first)
        self.assertEqual(list(self.scratch.iterdir()), [], "something was left behind")
        own = {"kit.zip", "evidence.json", "tmp", "lib", "python"}
        written = {path.name for path in self.folder.iterdir()}
        self.assertEqual(written - own, {"NAN-9002", "NAN-9003"})
        if user.prefix:
            self.assertEqual((self.folder / "evidence.json").stat().st_uid, NOBODY)
        call_command("load_evidence", self.folder / "evidence.json", origin="node-7")
        rows = Evidence.objects.values_list("record_id", "origin")
        wanted = {(f"NAN-900{n}", "node-7") for n in (1, 2, 3)}
        self.assertEqual(set(rows), wanted)

    def test_on_a_gpu_it_is_watched_and_what_needs_it_comes_first(self) -> None:
        recorded = ROOT / "tests" / "nvml" / "h200.json"
        uuid = json.loads(recorded.read_text())["devices"][0]["nvmlDeviceGetUUID"]
        torch = self.folder / "lib" / "torch" / "__init__.py"
        torch.write_text(WITH_GPU.format(uuid=uuid.removeprefix("GPU-")))
        self.add("NAN-9001")
        self.add("NAN-9002", device="cuda")
        self.make()
        script = f"""
            import functools, os, runpy, sys
            names = runpy.run_path("kit.zip")
            folder = os.path.join({str(self.scratch)!r}, "doesitnan-x")
            for name, text in names["PARTS"].items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, "w").write(text)
            sys.path.insert(0, folder)
            sys.argv[0] = "kit.zip"
            import node, kit
            recorded = functools.partial(node.vendors.vendor_here, {str(recorded)!r})
            node.vendors.vendor_here = recorded
            sys.exit(kit.main(folder, ["--json", "evidence.json", "--lang", "en"]))
        """
        done = subprocess.run(
            [self.python, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("GPU: TEST GPU, capability 9.0, 65536 MiB", done.stdout)
        self.assertIn("cuDNN 91900", done.stdout)
        gpu, _cpu = self.whole()["results"]
        evidence = gpu["evidence"]
        self.assertEqual(
            (gpu["record"], evidence["verdict"]), ("NAN-9002", "bug_present")
        )
        (device,) = evidence["telemetry"]["devices"]
        for moment in ("before", "during", "after"):
            self.assertGreater(device[moment]["memory_used"], 0, moment)
        self.assertEqual(device["uuid"], uuid)
        self.assertTrue(evidence["telemetry"]["driver"])
        self.assertEqual(self.whole()["gpus"], ["TEST GPU"])
        page = self.client.get("/NAN-9002", follow=True).content.decode()
        self.assertIn("Nobody has run it here on a GPU yet", page)
        self.assertIn(
            'href="/api/v1/records/NAN-9002/repro.py" download>this one', page
        )
        call_command("load_evidence", self.folder / "evidence.json", origin="test-gpu")
        page = self.client.get("/en/matrix/?record=NAN-9002").content.decode()
        self.assertIn("TEST GPU", page)

    def test_what_tells_most_comes_first_as_far_as_time_goes(self) -> None:
        self.add("NAN-9001")
        self.add("NAN-9002", body=runs.CHECKS)
        self.add("NAN-9003", control="import time\ntime.sleep(600)")
        self.make()
        status, out, _ = self.run_kit("--list")
        listed = [line.split()[0] for line in out.splitlines() if " cpu " in line]
        self.assertEqual((status, listed), (0, ["NAN-9002", "NAN-9001", "NAN-9003"]))
        self.assertIn("To run: 3, about", out)
        status, out, _ = self.run_kit(
            *("--json", "evidence.json", "--budget-s", "1", "--record", "NAN-9003")
        )
        self.assertEqual((status, self.finished()), (1, []))
        self.assertIn("Without a result so far: 1", out)

    def test_a_schedule_takes_what_fits_and_waits_for_gpus(self) -> None:
        left = [100.0]
        rows = [
            {"record": record, "name": "repro", "device": device, "gpus": gpus}
            | {"unseen": unseen, "decides": 1}
            for record, device, gpus, unseen in (
                ("NAN-9001", "cpu", 0, True),
                ("NAN-9002", "cuda", 1, False),
                ("NAN-9003", "cuda", 4, True),
                ("NAN-9004", "cuda", 1, True),
            )
        ]
        seconds = dict(zip("1234", (20.0, 500.0, 30.0, 10.0), strict=True))
        expected = {
            (row["record"], "repro"): seconds[row["record"][-1]] for row in rows
        }
        queue = schedule.Schedule(rows, expected, lambda: left[0], gpus=1)
        first = queue.take()
        self.assertEqual(first["record"], "NAN-9003")
        second = queue.take()
        self.assertEqual(second["record"], "NAN-9001", "the GPU is in use")
        queue.give_back(first)
        self.assertEqual(queue.take()["record"], "NAN-9004")
        left[0] = 0.0
        queue.give_back(rows[3])
        self.assertEqual(queue.take()["record"], "NAN-9002", "nothing else is left")
        self.assertIsNone(queue.take())

    def test_a_file_that_holds_something_is_not_lost(self) -> None:
        self.add("NAN-9001")
        self.make()
        kept = self.folder / "evidence.json"
        kept.write_text("{}")
        status, _, err = self.run_kit("--json", "evidence.json")
        self.assertEqual(status, 2)
        self.assertIn("evidence.json holds something already", err)
        status, _, err = self.run_kit("--resume", "evidence.json")
        self.assertEqual(status, 2)
        self.assertIn("holds no results of a kit", err)
        self.assertEqual(kept.read_text(), "{}")
        self.run_kit("--resume", "mine.json")
        elsewhere = self.whole("mine.json")
        elsewhere["build"]["raw"] = "2.11.0+cu130"
        kept.write_text(json.dumps(elsewhere))
        status, _, err = self.run_kit("--resume", "evidence.json")
        self.assertEqual(status, 2)
        self.assertIn("torch 2.11.0+cu130", err)

    def test_wheels_are_a_repros_own_and_checked(self) -> None:
        wheel = self.folder / "carried_stack-1.5-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("carried_stack.py", "__version__ = '1.5'\n")
            file.writestr(
                "carried_stack-1.5.dist-info/METADATA", "Name: carried-stack\n"
            )
        text = runs.source(CHECKS).replace(
            "# trials = 1", '# trials = 1\n# stack = {carried_stack = "1.5"}'
        )
        runs.make_repro(text)
        self.assertEqual(wheels.requirements(text), ["carried_stack==1.5"])
        path = self.make(wheels.Wheel(wheel, "carried_stack==1.5"))
        status, _, err = self.run_kit("--json", "evidence.json")
        (row,) = self.whole()["results"]
        self.assertEqual((status, row["verdict"]), (0, "bug_present"), err)
        packages = row["evidence"]["build"]["packages"]
        self.assertEqual(packages["carried_stack"], "1.5")
        data = path.read_bytes()
        self.assertEqual(data.count(b"__version__ = '1.5'"), 1)
        path.write_bytes(data.replace(b"__version__ = '1.5'", b"__version__ = '1.6'"))
        status, _, err = self.run_kit("--json", "other.json")
        self.assertEqual(status, 2)
        self.assertIn("is not what was made", err)

    def test_wrong_usage_is_status_two(self) -> None:
        self.add("NAN-9001")
        self.make()
        for arguments in (
            [],
            ["--json", "e.json", "--record", "NAN-0404"],
            ["--json", "e.json", "--budget-s", "0"],
            ["--json", "/nowhere/at/all.json"],
        ):
            self.assertEqual(self.run_kit(*arguments)[0], 2, arguments)
        status, out, _ = self.run_kit("--json", "e.json", "--only-cuda")
        self.assertEqual(status, 125)
        self.assertIn("There is nothing left to run here", out)

    def test_the_command_refuses_what_it_cannot_make(self) -> None:
        with self.assertRaisesMessage(CommandError, "load_records"):
            call_command("kit", output=self.folder / "k.zip")
        self.add("NAN-9001")
        with self.assertRaisesMessage(CommandError, "NAN-9001"):
            call_command("kit", "--cuda", "--record", "nan-9001")
        call_command("kit", "-o", str(self.folder / "k.zip"), verbosity=0)
        again = self.make().read_bytes()
        self.assertEqual((self.folder / "k.zip").read_bytes(), again)
        large = self.folder / "x-1-py3-none-any.whl"
        with large.open("wb") as file:
            file.truncate(61_000_000)
        with self.assertRaises(TooLarge):
            self.make(wheels.Wheel(large, "x==1"))
        self.assertEqual((self.folder / "kit.zip").read_bytes(), again)
