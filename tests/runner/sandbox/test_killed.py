"""Checks that are killed from outside start again; what kills itself does not."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import SkipTest

from django.test import SimpleTestCase

from portable import harness
from runner import sandbox
from runner.sandbox import cgroups, coldstart, policy
from tests.support import runs
from tests.support.sites import wait_for
from tests.support.surroundings import stat_fields

LIMIT_S = 60.0  # guards a hang, measures nothing
CLEAN = "return {'nonfinite': 0, 'grad': 1.0}"
# Says by its name that it waits, and goes on at a signal that only we send.
WAITS = f"""\
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
with open('/proc/self/comm', 'w') as file:
    file.write('%s')
signal.sigwait([signal.SIGUSR1])
{CLEAN}"""


def named(name: str) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == name:
                found.add(int(path.parent.name))
    return found


def next_of(name: str, known: set[int]) -> int:
    """The next process of this name."""
    pid = wait_for(lambda: named(name) - known, f"a process {name}").pop()
    known.add(pid)
    return pid


class KilledCase(SimpleTestCase):
    def setUp(self) -> None:
        if not policy.seals(sandbox.capabilities().layers):
            raise SkipTest("needs namespaces and seccomp")
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o711)
        self.python = str(runs.stand_in_torch(self.folder))
        self.told: list[tuple[str, str]] = []
        self.starts: list[str] = []

    def cold(self, text: str) -> coldstart.ColdStart:
        path = self.folder / "repro.py"
        path.write_text(text)
        return sandbox.start_in(self.python, str(path), gpus="")

    def drive(self, control: str, **changes: Any) -> dict[str, Any]:
        text = runs.source(control=control)
        cold = replace(self.cold(text), **changes)

        def start(spec: harness.CheckSpec) -> harness.Report:
            self.starts.append(spec.name)
            return cold(spec)

        return harness.drive(text, start, on_event=lambda *told: self.told.append(told))

    def control(self, body: dict[str, Any]) -> dict[str, Any]:
        (found,) = [c for c in body["checks"] if c["name"] == "control"]
        return dict(found)


class FromOutsideTest(KilledCase):
    def struck(self, *signals: int, parent: bool = False) -> dict[str, Any]:
        """A run whose control gets these signals, one in each of its lives."""
        name = f"w{secrets.token_hex(6)}"
        seen: set[int] = set()
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(self.drive, WAITS % name)
            for number in signals:
                pid = next_of(name, seen)
                if parent and number == signal.SIGKILL:
                    pid = int(stat_fields(pid)[1])
                os.kill(pid, number)
            return running.result(LIMIT_S)

    def test_a_check_that_was_killed_starts_again_and_the_evidence_says_so(
        self,
    ) -> None:
        body = self.struck(signal.SIGKILL, signal.SIGUSR1)
        self.assertEqual((body["verdict"], body["reason"]), ("bug_present", None))
        control = self.control(body)
        (kill,) = control["killed"]
        self.assertEqual(kill["by"], "signal")
        self.assertIn("by a signal from outside", control["log"]["text"])
        self.assertEqual(self.starts.count("control"), 2)
        again = [text for phase, text in self.told if "starts again" in text]
        self.assertEqual(len(again), 1)
        others = [c for c in body["checks"] if c["name"] != "control"]
        self.assertFalse([c for c in others if "killed" in c])
        self.assertEqual(harness.evidence_digest(body), body["digest"])

    def test_so_does_one_whose_init_was_killed(self) -> None:
        body = self.struck(signal.SIGKILL, signal.SIGUSR1, parent=True)
        self.assertEqual((body["verdict"], body["reason"]), ("bug_present", None))
        self.assertEqual(len(self.control(body)["killed"]), 1)

    def test_the_third_time_it_is_the_end(self) -> None:
        body = self.struck(*[signal.SIGKILL] * 3)
        self.assertEqual((body["verdict"], body["reason"]), ("error", "crash:SIGKILL"))
        self.assertEqual(len(self.control(body)["killed"]), 3)
        self.assertEqual(self.starts.count("control"), 3)

    def test_a_host_without_memory_is_not_the_check_s_fault(self) -> None:
        found = sandbox.capabilities().cgroups
        if found is None:
            raise SkipTest("needs a cgroup")
        with small_host(found) as host:
            capabilities = replace(sandbox.capabilities(), cgroups=host)
            body = self.drive(
                f"data = bytearray(400 << 20)\n{CLEAN}", found=capabilities
            )
        self.assertEqual(body["verdict"], "error")
        kills = self.control(body)["killed"]
        self.assertEqual([kill["by"] for kill in kills], ["oom"] * 3)
        self.assertIn("no memory left", self.control(body)["log"]["text"])


@contextlib.contextmanager
def small_host(found: cgroups.Cgroups) -> Iterator[cgroups.Cgroups]:
    """A place for groups that has less memory than each of them may take."""
    if found.version != "v1":
        raise SkipTest("a group with groups in it hands controllers down in v2")
    outer = found.memory / f"{cgroups.PREFIX}{cgroups.owner_mark(os.getpid())}-host"
    outer.mkdir()
    try:
        (outer / "memory.limit_in_bytes").write_text(str(128 << 20))
        yield cgroups.Cgroups("v1", outer, found.pids)
    finally:
        cgroups.Group("v1", outer, outer).remove()


OWN_ENDS = {
    "itself": "os.kill(os.getpid(), 9)",
    "its group": "os.killpg(os.getpgrp(), 9)",
    "everybody": "os.kill(-1, 9)",
    "its thread": "signal.pthread_kill(threading.get_ident(), 9)",
    "a descriptor of itself": "signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 9)",
    "a child": "pid = os.fork()\nif not pid: os.kill(os.getppid(), 9)\nos.wait()",
    "another signal": "os.kill(os.getpid(), 15)",
}


class ByItselfTest(KilledCase):
    def test_what_a_check_does_to_itself_is_not_repeated(self) -> None:
        for name, line in OWN_ENDS.items():
            with self.subTest(name):
                self.starts.clear()
                body = self.drive(f"import os, signal, threading\n{line}\n{CLEAN}")
                self.assertNotIn("killed", self.control(body))
                self.assertEqual(self.starts.count("control"), 1)

    def test_nor_is_its_own_memory_limit(self) -> None:
        # It holds what it took: without a cgroup only a look now and then sees it.
        hold = "import signal\nsignal.pause()"
        lines = f"data = bytearray(3 << 30)\nsum(data[::4096])\n{hold}\n{CLEAN}"
        body = self.drive(lines)
        self.assertEqual(body["reason"], "limit:memory")
        self.assertNotIn("killed", self.control(body))
        self.assertEqual(self.starts.count("control"), 1)

    def test_a_check_kills_what_it_started_itself(self) -> None:
        lines = (
            "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
            f"child.kill()\nassert child.wait() == -9\n{CLEAN}"
        )
        self.assertEqual(self.drive(lines)["verdict"], "bug_present")
