"""The kit: reviewed repros in one file, on a node without a network."""

from __future__ import annotations

import json
import zipfile

from django.core.management import CommandError, call_command
from django.test import tag

from kb.models import Repro
from runner.models import Evidence
from runner.takeaway import wheels
from runner.takeaway.kit import TooLarge
from runner.takeaway.programs import schedule
from tests.support import kits, runs
from tests.support.kits import WAITS, KitCase
from tests.support.ordinary_user import ordinary


@tag("any_database", "long")
class KitTest(KitCase):
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
        self.assertIn("Already in evidence.json, not run again: 2", out)
        self.assertIn("torch sees no GPU here", out)
        self.assertIn("manage.py load_evidence evidence.json --origin NAME", out)
        whole = self.whole()
        self.assertTrue(whole["complete"])
        self.assertEqual(whole["results"][0]["evidence"]["digest"], first)
        self.assertEqual(list(self.scratch.iterdir()), [], "something was left behind")
        own = {"kit.zip", "evidence.json", "tmp", "lib", "python"}
        written = {path.name for path in self.folder.iterdir()}
        self.assertEqual(written - own, {"NAN-9002", "NAN-9003"})
        self.assertEqual((self.folder / "evidence.json").stat().st_uid, user.uid)
        call_command("load_evidence", self.folder / "evidence.json", origin="node-7")
        rows = Evidence.objects.values_list("record_id", "origin")
        wanted = {(f"NAN-900{n}", "node-7") for n in (1, 2, 3)}
        self.assertEqual(set(rows), wanted)

    def test_on_a_gpu_it_is_watched_and_what_needs_it_comes_first(self) -> None:
        uuid = self.put_gpu()
        self.add("NAN-9001")
        self.add("NAN-9002", device="cuda")
        self.make()
        done = self.run_on_gpu("--json", "evidence.json")
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
            'href="/api/v1/records/NAN-9002/repro.py" download>Download the', page
        )
        call_command("load_evidence", self.folder / "evidence.json", origin="test-gpu")
        page = self.client.get("/NAN-9002", follow=True).content.decode()
        self.assertIn("TEST GPU", page)
        self.assertIn("by test-gpu; not run here", page)

    def test_what_runs_on_any_device_runs_on_the_one_that_is_named(self) -> None:
        text = kits.for_any_device()
        runs.make_repro(text.replace("NAN-9001", "NAN-9003"), "repro", "NAN-9003")
        self.add("NAN-9001")
        self.make()
        status, out, _err = self.run_kit("--device", "npu", "--json", "evidence.json")
        self.assertIn("torch sees no npu here: nothing is run.", out)
        self.assertEqual(status, 125)
        self.put_npu()
        self.assertEqual(self.run_kit("--json", "evidence.json")[0], 0)
        self.assertEqual(self.finished(), ["NAN-9001", "NAN-9003"])
        status, out, _err = self.run_kit("--device", "npu", "--json", "npu.json")
        self.assertIn("Device: TEST NPU (npu)", out)
        self.assertIn("load_evidence npu.json", out)
        (row,) = self.whole("npu.json")["results"]
        self.assertEqual((row["record"], row["device"]), ("NAN-9003", "npu"))
        self.assertEqual(row["evidence"]["verdict"], "bug_present")
        self.assertEqual(row["evidence"]["device"]["name"], "TEST NPU")
        self.assertEqual((status, self.whole("npu.json")["gpus"]), (0, ["TEST NPU"]))

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
        queue.give_back(first, None)
        self.assertEqual(queue.take()["record"], "NAN-9004")
        left[0] = 0.0
        queue.give_back(rows[3], None)
        self.assertEqual(queue.take()["record"], "NAN-9002", "nothing else is left")
        self.assertIsNone(queue.take())

    def test_the_pace_is_that_of_repros_that_ran_to_their_end(self) -> None:
        row = {"record": "NAN-9001", "name": "repro", "device": "cpu", "gpus": 0}
        row |= {"unseen": True, "decides": 1}
        rows = [row | {"record": f"NAN-900{number}"} for number in (1, 2, 3)]
        expected = {(each["record"], "repro"): 100.0 for each in rows}
        queue = schedule.Schedule(rows, expected, lambda: 1000.0, gpus=0)
        queue.give_back(queue.take(), {"hits": None})
        self.assertEqual(queue.remaining_s(1), 200, "it ended at once")
        queue.give_back(queue.take(), {"hits": 1})
        self.assertLess(queue.remaining_s(1), 100)

    def test_a_gpu_and_a_compiler_take_their_time(self) -> None:
        plain = {"device": "cpu", "checks": 10, "usual_s": None, "compiles": False}
        self.assertEqual(schedule.expected_s(plain, 2.0), 20)
        self.assertEqual(schedule.expected_s(plain | {"device": "cuda"}, 2.0), 35)
        self.assertEqual(schedule.expected_s(plain | {"compiles": True}, 2.0), 80)
        known = plain | {"device": "cuda", "usual_s": 50.0}
        self.assertEqual(schedule.expected_s(known, 2.0), 50)

    def test_a_file_that_holds_something_is_not_lost(self) -> None:
        self.add("NAN-9001")
        self.make()
        kept = self.folder / "evidence.json"
        kept.write_text("{}")
        status, _, err = self.run_kit("--json", "evidence.json")
        self.assertEqual(status, 2)
        self.assertIn("evidence.json is not empty", err)
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

    def test_to_go_on_with_less_loses_nothing(self) -> None:
        for number in (1, 2, 3):
            self.add(f"NAN-900{number}")
        self.make()
        arguments = ("--record", "NAN-9001", "--record", "NAN-9002")
        status, _, err = self.run_kit("--json", "evidence.json", *arguments)
        self.assertEqual(status, 0, err)
        first, second = self.whole()["results"]
        arguments = ("--resume", "evidence.json", "--record", "NAN-9003")
        status, out, err = self.run_kit(*arguments)
        self.assertEqual(status, 0, err)
        self.assertIn("Left unchanged in evidence.json", out)
        results = self.whole()["results"]
        self.assertEqual(self.finished(), ["NAN-9003", "NAN-9001", "NAN-9002"])
        self.assertEqual(results[1:], [first, second])
        # A kit with another source runs it anew, beside what the old one showed.
        Repro.objects.filter(record="NAN-9001").delete()
        self.add("NAN-9001", body=kits.CHECKS + "\n\n# Another source.\n")
        self.make()
        status, out, err = self.run_kit("--resume", "evidence.json")
        self.assertEqual(status, 0, err)
        self.assertIn("To run: 1, about", out)
        kept = [row for row in self.whole()["results"] if row["record"] == "NAN-9001"]
        self.assertEqual(
            [row["evidence"]["verdict"] for row in kept], 2 * ["bug_present"]
        )
        self.assertEqual(kept[1], first)
        status, out, _ = self.run_kit("--resume", "evidence.json")
        self.assertEqual((status, len(self.finished())), (0, 4))
        self.assertIn("There is nothing left to run here", out)

    def test_wheels_are_a_repros_own_and_checked(self) -> None:
        wheel = self.folder / "carried_stack-1.5-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("carried_stack.py", "__version__ = '1.5'\n")
            file.writestr(
                "carried_stack-1.5.dist-info/METADATA", "Name: carried-stack\n"
            )
        text = runs.source(kits.CHECKS).replace(
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
        self.assertIn("This copy is damaged", err)

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
