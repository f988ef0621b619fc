"""`doctor.py --machine`: known answers, and a number that is wrong now and then."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from django.test import SimpleTestCase, TestCase, tag

from runner.takeaway.bundle import PROGRAMS
from runner.takeaway.doctor import doctor
from tests import ROOT
from tests.support.builds import torch_python

# Each fault in a process of its own, forked from one that has imported torch.
FAULT = """
import contextlib, functools, io, json, os, sys
import torch
sys.path.insert(0, {root!r})
from portable import known_answers

def put(name, right):
    *place, last = name.split(".")[1:]
    owner = functools.reduce(getattr, place, torch)
    calls, sound = 0, getattr(owner, last)

    def faulty(*args, **kwargs):
        nonlocal calls
        calls += 1
        made = sound(*args, **kwargs)
        if calls > right and calls % 3 == 0:
            made.view(-1)[3:4] += 1
        return made

    setattr(owner, last, faulty)

for name, right in {faults!r}:
    if not (child := os.fork()):
        put(name, right)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = known_answers.main(0.2)
        rows = list(map(json.loads, said.getvalue().splitlines()))
        print(json.dumps([name, status, rows]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
# What computes wrongly, after how many calls that were right, and who has to notice.
FAULTS = {
    "torch.matmul": (20, {"matmul", "attention"}),
    "torch.softmax": (8, {"attention"}),
    "torch.Tensor.sum": (20, {"reduction"}),
    "torch.Tensor.clone": (3, {"copy"}),
}


class FaultTest(SimpleTestCase):
    def test_what_is_wrong_now_and_then_is_found_where_it_is(self) -> None:
        faults = [(op, sound) for op, (sound, _noticing) in FAULTS.items()]
        done = subprocess.run(
            [torch_python(), "-c", FAULT.format(root=str(ROOT), faults=faults)],
            capture_output=True,
            text=True,
        )
        found = list(map(json.loads, done.stdout.splitlines()))
        self.assertEqual([op for op, *_ in found], list(FAULTS), done.stderr)
        for op, status, rows in found:
            self.assertEqual(status, 1, op)
            faulty = {row["check"] for row in rows if row["faults"]}
            self.assertEqual(faulty, FAULTS[op][1], op)
            for row in rows:
                self.assertGreaterEqual(row["repeated"], 5)
                self.assertLess(row["faults"], row["repeated"], op)


@tag("any_database")
class DoctorTest(TestCase):
    def test_a_sound_machine_is_told_what_that_does_not_prove(self) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "doctor.py")
            path.write_text(doctor(), encoding="utf-8")
            python = [torch_python(), str(path), "--machine", "0.1"]
            english, chinese = (
                subprocess.run(
                    [*python, "--lang", lang], capture_output=True, text=True
                )
                for lang in ("en", "zh")
            )
        self.assertEqual(english.returncode, 0, english.stdout + english.stderr)
        for check in ("matmul", "attention", "gradient", "reduction", "copy"):
            self.assertIn(f"cpu {check}: right ", english.stdout)
        self.assertIn("can be missed", english.stdout)
        self.assertIn("没有错误", chinese.stdout)

    def test_a_fault_is_told_with_its_numbers(self) -> None:
        checks = (ROOT / "portable" / "known_answers.py").read_text()
        wrong = checks.replace("left @ right\n", "left @ right + 1\n")
        told = (
            "import sys, types, machine; options = types.SimpleNamespace("
            "machine=0.1, python=sys.executable, lang='en'); "
            "sys.exit(machine.examine(sys.argv[1], options))"
        )
        with TemporaryDirectory() as folder:
            path = Path(folder, "portable", "known_answers.py")
            path.parent.mkdir()
            path.write_text(wrong)
            done = subprocess.run(
                [torch_python(), "-c", told, folder],
                env={"PYTHONPATH": f"{PROGRAMS}:{ROOT}"},
                capture_output=True,
                text=True,
            )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cpu matmul float32: wrong ", done.stdout)
        self.assertIn("This machine computes wrong numbers", done.stdout)
