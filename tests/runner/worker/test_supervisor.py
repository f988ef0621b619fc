"""The supervisor with real children: what runs once, and what is started again."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 120
# Supervises one child that runs once; says when it is over, and stops.
PROGRAM = """
import sys
from runner.worker import supervisor
supervisor.POLL_S = 0.01
supervisor.MAX_BACKOFF_S = 0
child = supervisor.Child("Child", [sys.executable, "-c", sys.argv[1]], once=True)
site = supervisor.Supervisor([child], lambda text: print(text, flush=True))

def tick():
    if child.is_over:
        print("over", child.process.returncode, flush=True)
        site.stopping = True

site.run(tick)
"""
NOTE = "open({path!r}, 'a').write('x')\n"
KILL_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


class OnceTest(unittest.TestCase):
    def supervised(self, code: str) -> tuple[list[str], int]:
        """What was said about a child with this code, and how often it was started."""
        with tempfile.TemporaryDirectory() as folder:
            note = Path(folder, "starts")
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, NOTE.format(path=str(note)) + code],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=True,
            )
            return done.stdout.splitlines(), len(note.read_text())

    def test_its_own_end_is_the_end_good_or_bad(self) -> None:
        self.assertEqual(self.supervised("pass"), (["over 0"], 1))
        self.assertEqual(self.supervised("raise SystemExit(3)"), (["over 3"], 1))

    def test_one_that_was_killed_is_started_again_but_not_for_ever(self) -> None:
        lines, starts = self.supervised(KILL_ITSELF)
        self.assertEqual(lines[-1], "over -9")
        self.assertEqual(starts, 1 + 3)
        again = [line for line in lines if "was ended by signal 9: restart in" in line]
        self.assertEqual(len(again), 3)
