"""`manage.py up` as a user has it: real processes, a real port, Ctrl-C."""

import http.client
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase, tag

from runner.worker import supervisor
from tests.support.builds import torch_python
from tests.support.sites import with_few_records

ROOT = Path(settings.BASE_DIR)
LIMIT_S = 300


def environ_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@tag("long")
class UpTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.env = {
            **{k: v for k, v in os.environ.items() if k != "DATABASE_URL"},
            "DATA_DIR": str(self.folder / "data"),
            "BUILDS": shlex.quote(torch_python()),
            "PORT": str(self.port),
            "LANG": "C.UTF-8",
            **with_few_records(self.folder),
        }

    def up(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--no-install"],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self.end, process)
        # A word that never comes ends the test, and not the whole run of them.
        watchdog = threading.Timer(LIMIT_S, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        if process.stdout:
            process.stdout.close()

    def running(self) -> list[int]:
        """Every process that has this site's DATA_DIR in its environment."""
        mark = f"DATA_DIR={self.env['DATA_DIR']}".encode()
        pids = (path.name for path in Path("/proc").iterdir() if path.name.isdigit())
        return [int(pid) for pid in pids if mark in environ_of(pid).split(b"\0")]

    def lines_until(self, process: subprocess.Popen[str], text: str) -> list[str]:
        lines = list(self.read_until(process, text))
        self.assertIn(text, lines[-1] if lines else "", "\n".join(lines))
        return lines

    def all_said(self, process: subprocess.Popen[str], *texts: str) -> None:
        """Read on until each text was part of a line, in any order."""
        awaited = set(texts)
        lines = []
        for line in process.stdout or []:
            lines.append(line)
            awaited -= {text for text in awaited if text in line}
            if not awaited:
                return
        self.fail(f"never said: {awaited}\n{''.join(lines)}")

    def read_until(self, process: subprocess.Popen[str], text: str) -> Iterator[str]:
        assert process.stdout
        for line in process.stdout:
            yield line.rstrip()
            if text in line:
                return

    def get(self, path: str) -> int:
        site = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            site.request("GET", path)
            return site.getresponse().status
        finally:
            site.close()

    def test_from_start_to_ctrl_c(self) -> None:
        process = self.up()
        lines = self.lines_until(process, "Does it NaN? is at ")
        self.assertIn(f"http://127.0.0.1:{self.port}/", lines[-1])
        self.assertEqual(self.get("/healthz"), 200)
        self.assertEqual(self.get("/en/"), 200)
        # What is loaded comes behind the site, and so does whoever runs something.
        said = "\n".join(lines)
        for text in (" records.", "Evidence: ", " serves "):
            self.assertNotIn(text, said)
        self.all_said(process, " records.", "Evidence: ", " serves ")
        self.second_one_is_refused()
        self.dead_worker_is_started_again(process)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, rest)
        self.assertIn("Stopped.", rest)
        self.assertEqual(self.running(), [])

    def dead_worker_is_started_again(self, process: subprocess.Popen[str]) -> None:
        worker = [
            pid
            for pid in supervisor.child_pids(process.pid)
            if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        ]
        os.kill(worker[0], signal.SIGKILL)
        # At once where it had been well for a minute, as on busy cores.
        self.lines_until(process, "Worker was ended by signal 9: restart in ")
        self.lines_until(process, " serves ")

    def second_one_is_refused(self) -> None:
        self.env["PORT"] = "0"
        second = self.up()
        output, _ = second.communicate(timeout=LIMIT_S)
        self.assertEqual(second.returncode, 1)
        self.assertIn("running already", output)

    def test_a_port_in_use_is_said_at_once(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            process = self.up()
            output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn("give another PORT", output)
        self.assertNotIn("Traceback", output)

    def test_its_children_do_not_outlive_a_kill(self) -> None:
        process = self.up()
        self.lines_until(process, "Does it NaN? is at ")
        handles = [os.pidfd_open(pid) for pid in self.running() if pid != process.pid]
        self.assertGreaterEqual(len(handles), 2)
        process.kill()
        for handle in handles:
            ended, _, _ = select.select([handle], [], [], LIMIT_S)
            os.close(handle)
            self.assertTrue(ended)
