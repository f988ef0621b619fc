"""The doctor: every published repro in one file, run under the user's own Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.test import TestCase, tag

from kb.models import Record
from kb.publishing import saving
from portable import harness
from runner.takeaway.doctor import doctor
from tests.support import runs, sarif_schema

# Each check is a process: as few as there must be.
CHECKS = runs.CHECKS.partition("\n\ndef workaround_off")[0]
CLEAN = "return {'nonfinite': 0, 'grad': 1.0}"


@tag("any_database")
class DoctorCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = str(runs.stand_in_torch(self.folder))

    def add(self, record: str, upstream: str = "open", **options: Any) -> None:
        name = options.pop("name", "repro")
        body = options.pop("body", CHECKS)
        text = runs.source(body, **options).replace("NAN-9001", record)
        row = runs.make_repro(text, name, record).record
        row.upstream = upstream
        saving.save(row)

    def run_doctor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        path = self.folder / "doctor.py"
        path.write_text(doctor(), encoding="utf-8")
        done = subprocess.run(
            [self.python, str(path), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "TMPDIR": str(scratch)},
            cwd=self.folder,
            timeout=300,
        )
        self.assertEqual(list(scratch.iterdir()), [], "something was left behind")
        return done

    def results(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = self.run_doctor("--json", *arguments)
        whole = json.loads(done.stdout)
        self.assertEqual(whole["exit"], done.returncode)
        return done.returncode, {
            f"{row['record']} {row['repro']}": row for row in whole["results"]
        }


@tag("long")
class DoctorTest(DoctorCase):
    def test_a_workaround_is_called_by_its_title(self) -> None:
        self.add("NAN-9001", body=runs.CHECKS)
        row = Record.objects.get()
        workaround = {"name": "off", "kind": "code", "needs": "", "apply": ""}
        row.workarounds = [{**workaround, "cost": {"en": "None.", "zh": "无。"}}]
        title = {"en": "It is switched off", "zh": "将其关闭"}
        row.check_titles = [{"name": "workaround_off", "text": title}]
        saving.save(row)
        self.assertIn(": It is switched off\n", self.run_doctor("--lang", "en").stdout)

    def test_a_bug_counts_unless_it_is_a_model_or_by_design(self) -> None:
        self.add("NAN-9001", upstream="by_design")
        self.add("NAN-9002", fidelity="mechanism_model")
        self.add("NAN-9003", trigger=CLEAN)
        status, found = self.results("--jobs", "2")
        self.assertEqual(status, 0)
        self.assertEqual(
            {name: (row["verdict"], row["counts"]) for name, row in found.items()},
            {
                "NAN-9001 repro": ("bug_present", False),
                "NAN-9002 repro": ("bug_present", False),
                "NAN-9003 repro": ("bug_absent", False),
            },
        )
        evidence = found["NAN-9001 repro"]["evidence"]
        self.assertEqual(evidence["digest"], harness.evidence_digest(evidence))
        self.add("NAN-9004")
        status, found = self.results("--record", "nan-9004", "--record", "NAN-9003")
        self.assertEqual((status, len(found)), (1, 2))
        self.assertTrue(found["NAN-9004 repro"]["counts"])

    def test_what_ends_without_a_verdict_is_not_reported_as_absent(self) -> None:
        self.add("NAN-9001", trigger=CLEAN)
        self.add("NAN-9002", control="raise ValueError")
        self.assertEqual(self.results()[0], 2)
        self.add("NAN-9003", trigger="return {'not_applicable': 'no such op'}")
        self.assertEqual(self.results("--record", "NAN-9003")[0], 125)

    def test_repros_for_gpus_and_models_are_a_choice(self) -> None:
        self.add("NAN-9001", device="cuda")
        self.add("NAN-9002", fidelity="mechanism_model", trigger=CLEAN)
        self.add("NAN-9003", trigger=CLEAN)
        _, found = self.results("--no-models")
        self.assertEqual(list(found), ["NAN-9003 repro"])
        _, found = self.results("--cuda", "--record", "NAN-9001")
        self.assertEqual(found["NAN-9001 repro"]["evidence"]["reason"], "device")

    def test_only_published_records_are_in_it(self) -> None:
        self.add("NAN-9001")
        self.add("NAN-9002")
        row = runs.make_record("NAN-9002")
        row.publication = "withdrawn"
        saving.save(row)
        done = self.run_doctor("--list")
        self.assertIn("NAN-9001  repro", done.stdout)
        self.assertNotIn("NAN-9002", done.stdout)

    def test_past_the_time_limit_there_is_no_verdict(self) -> None:
        waits = "import time\ntime.sleep(600)"
        self.add("NAN-9001", control=waits)
        self.add("NAN-9002")
        status, found = self.results("--timeout-s", "2")
        self.assertEqual(status, 2)
        for row in found.values():
            self.assertEqual((row["state"], row["verdict"]), ("cancelled", None))

    def test_a_person_gets_a_table_in_one_language(self) -> None:
        self.add("NAN-9001", body=runs.CHECKS, upstream="by_design")
        self.add("NAN-9002", device="cuda")
        english = self.run_doctor("--json", "out.json", "--lang", "en")
        for words in (
            "torch 9.9.0+cpu · Python 3.11",
            "✖ FAIL · bug reproduced (1/1)",
            "A sample · upstream: by design",
            "✔ Workaround verified: off",
            "Repros run: 1, in ",
            "Bugs reproduced: 0, and 1 by design.",
            "Left out: 1.",
        ):
            self.assertIn(words, english.stdout)
        self.assertNotRegex(english.stdout, "[一-鿿]")
        self.assertEqual(english.stderr, "[1/1] NAN-9001 repro\n")
        chinese = self.run_doctor("--lang", "zh")
        for words in (
            "✖ 未通过 · 缺陷已复现（1/1）",
            "样例 · 上游：设计如此",
            "✔ 规避方法已验证: off",
            "未上传任何内容",
        ):
            self.assertIn(words, chinese.stdout)

    def test_quick_gives_the_same_verdict_of_fewer_checks(self) -> None:
        self.add("NAN-9001", body=runs.CHECKS)
        status, found = self.results("--quick")
        evidence = found["NAN-9001 repro"]["evidence"]
        self.assertEqual((status, evidence["verdict"]), (1, "bug_present"))
        names = [check["name"] for check in evidence["checks"]]
        self.assertEqual(names, ["requirements", "control", "detector", "trigger"])
        self.assertEqual(evidence["served"], "warm")

    def test_a_terminal_sees_one_line_that_changes(self) -> None:
        self.add("NAN-9001")
        path = self.folder / "doctor.py"
        path.write_text(doctor(), encoding="utf-8")
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        subprocess.run(
            [self.python, str(path)],
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            cwd=self.folder,
            check=False,
        )
        os.close(theirs)
        told = os.read(ours, 65536).decode()
        self.assertIn("\r\x1b[K[1/1] NAN-9001 repro · control", told)
        self.assertTrue(told.endswith("\r\x1b[K"), "the line is gone at the end")
        self.assertNotIn("\n", told)

    def test_a_reader_that_has_enough_ends_it_quietly(self) -> None:
        self.add("NAN-9001")
        path = self.folder / "doctor.py"
        path.write_text(doctor(), encoding="utf-8")
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [self.python, str(path), "--list"], stdout=writer, stderr=subprocess.PIPE
        )
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (2, b""))

    def test_a_run_on_the_cpu_clears_no_gpu(self) -> None:
        self.add("NAN-9001", trigger=CLEAN)
        self.assertNotIn("clear a GPU", self.run_doctor("--lang", "en").stdout)
        made = self.folder / "lib/torch/__init__.py"
        made.write_text(made.read_text().replace("cuda=None", "cuda='12.4'"))
        self.assertIn("does not clear a GPU", self.run_doctor("--lang", "en").stdout)
        self.assertIn("不能排除 GPU", self.run_doctor("--lang", "zh").stdout)

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """A doctor whose second repro has begun, and would take ten minutes."""
        self.add("NAN-9001")
        self.add("NAN-9002", control="import time\ntime.sleep(600)")
        path = self.folder / "doctor.py"
        path.write_text(doctor(), encoding="utf-8")
        process = subprocess.Popen(
            [self.python, str(path), "--lang", "en", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=self.folder,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stderr
        begun = next(line for line in process.stderr if "NAN-9002 repro" in line)
        self.assertRegex(begun, r"^\[2/2, \d+ s left\] ")
        return process

    def states(self) -> dict[str, Any]:
        whole = json.loads((self.folder / "out.json").read_text())
        self.assertFalse(whole["complete"])
        return {row["record"]: row["state"] for row in whole["results"]}

    def test_ctrl_c_ends_it_with_what_it_has(self) -> None:
        process = self.started("--json", "out.json")
        process.send_signal(signal.SIGINT)
        # Ten minutes would pass if it waited for what runs.
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("NAN-9001 repro", out)
        self.assertIn("Interrupted: 1 of 2 done.", out)
        self.assertIn("Without a verdict: 0.", out)
        self.assertEqual(
            self.states(), {"NAN-9001": "finished", "NAN-9002": "cancelled"}
        )

    def test_what_ran_is_written_before_the_end(self) -> None:
        process = self.started("--json", "out.json")
        process.kill()
        process.wait()
        self.assertEqual(self.states(), {"NAN-9001": "finished"})

    def test_code_scanning_is_told_of_bugs(self) -> None:
        self.add("NAN-9001")
        self.add("NAN-9002", upstream="by_design")
        self.add("NAN-9003", trigger=CLEAN)
        wanted = self.folder / "what it needs.txt"
        wanted.write_text("numpy==2.0\n# torch\ntorch-geometric\n torch>=2 # x\n")
        done = self.run_doctor("--sarif", "o.sarif", "--requirements", wanted.name)
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads((self.folder / "o.sarif").read_text())
        self.assertEqual(sarif_schema.problems(document), [])
        (run,) = document["runs"]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        self.assertEqual(rules, ["NAN-9001", "NAN-9002"])
        told = [(found["ruleId"], found["level"]) for found in run["results"]]
        self.assertEqual(told, [("NAN-9001", "error"), ("NAN-9002", "note")])
        place = run["results"][0]["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "what%20it%20needs.txt")
        self.assertEqual(place["region"]["startLine"], 4)
        prints = {str(found["partialFingerprints"]) for found in run["results"]}
        self.assertEqual(len(prints), 2)
        lines = "[project]\n# torch\ndependencies = ['torchaudio', 'torch>=2']\n"
        for asked in ([], ["--requirements", "gone.txt"]):
            done = self.run_doctor("--sarif", "o.sarif", *asked)
            self.assertEqual(done.returncode, 2, "it would point at no file")
            self.assertIn(
                *(asked[1:] or ["requirements.txt or pyproject"]), done.stderr
            )
        (self.folder / "pyproject.toml").write_text(lines)
        self.run_doctor("--sarif", "o.sarif", "--record", "NAN-9001")
        (run,) = json.loads((self.folder / "o.sarif").read_text())["runs"]
        place = run["results"][0]["locations"][0]["physicalLocation"]
        self.assertEqual(place["artifactLocation"]["uri"], "pyproject.toml")
        self.assertEqual(place["region"]["startLine"], 3)

    def test_wrong_usage_is_status_two(self) -> None:
        self.add("NAN-9001")
        for arguments in (
            ["--record", "NAN-0404"],
            ["--timeout-s", "0"],
            ["--timeout-s", "nan"],
            ["--jobs", "0"],
            ["--json", "/nowhere/at/all.json"],
            ["--nonsense"],
        ):
            done = self.run_doctor(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_python_without_torch_is_told_so(self) -> None:
        self.add("NAN-9001")
        self.python = sys.executable
        done = self.run_doctor("--lang", "en")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("cannot import torch", done.stderr)
        self.assertIn("无法导入 torch", self.run_doctor("--lang", "zh").stderr)

    def test_the_address_serves_it(self) -> None:
        self.add("NAN-9001")
        response = self.client.get("/api/v1/doctor.py")
        self.assertEqual(response.content.decode(), doctor())
        self.assertIn('filename="doctor.py"', response["Content-Disposition"])
