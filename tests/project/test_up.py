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
from io import StringIO
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.db import OperationalError
from django.test import SimpleTestCase, tag

from portable.harness.process import read_bytes
from runner.builds import registry
from runner.management.commands import builds, up
from runner.worker import supervisor
from tests.support.builds import torch_python
from tests.support.loopback import free_port
from tests.support.sites import with_few_records

ROOT = Path(settings.BASE_DIR)
LIMIT_S = 300


@tag("long")
class UpTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.port = free_port()
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
        return [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/environ")
            if mark in read_bytes(str(path)).split(b"\0")
        ]

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
            if b"worker" in read_bytes(f"/proc/{pid}/cmdline").split(b"\0")
        ]
        os.kill(worker[0], signal.SIGKILL)
        # At once where it had been well for a minute, as on busy cores.
        self.lines_until(process, "Worker was ended by signal 9: restart in ")
        self.lines_until(process, " serves ")

    def second_one_is_refused(self) -> None:
        self.env["PORT"] = str(free_port())
        second = self.up()
        output, _ = second.communicate(timeout=LIMIT_S)
        self.assertEqual(second.returncode, 1)
        self.assertIn("running already", output)

    def test_a_port_in_use_is_said_at_once(self) -> None:
        with socket.create_server(("127.0.0.1", self.port)):
            process = self.up()
            output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn("give another PORT", output)
        self.assertNotIn("Traceback", output)

    def test_it_waits_for_the_web_server_of_one_that_was_killed(self) -> None:
        first = self.up()
        self.lines_until(first, "Does it NaN? is at ")
        web = [
            pid
            for pid in self.running()
            if b"gunicorn" in read_bytes(f"/proc/{pid}/cmdline")
        ]
        self.assertTrue(web)
        for pid in web:
            os.kill(pid, signal.SIGSTOP)  # slow to end, as on busy cores
        first.kill()
        first.wait(LIMIT_S)
        second = self.up()
        self.lines_until(second, "Waiting for the web server of an earlier start")
        for pid in web:
            os.kill(pid, signal.SIGCONT)
        self.lines_until(second, "Does it NaN? is at ")
        self.assertEqual(self.get("/healthz"), 200)

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


class StartTest(SimpleTestCase):
    """What is said of a start, by the class itself."""

    def test_the_time_counts_from_the_first_command_on(self) -> None:
        # As bootstrap.py does, which becomes this process when .venv is made.
        code = "from runner.management.commands import up; print(up.since_start_s())"
        command = [sys.executable, "manage.py", "shell", "-v0", "--command", code]
        done = subprocess.run(
            ["sh", "-c", 'sleep 3; exec "$@"', "sh", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertGreater(float(done.stdout), 3.0)

    def test_an_error_in_the_look_for_torch_is_not_that_there_is_none(self) -> None:
        for status, said in (
            (0, up.ADVICE),
            (builds.REFUSED, up.ADVICE),
            (1, up.FAILED),
            (-signal.SIGKILL, up.FAILED),
        ):
            command = up.Command(stdout=StringIO())
            command.builds = supervisor.Child("Builds", [], once=True)
            command.builds.process = mock.Mock(returncode=status)
            with (
                self.subTest(status),
                mock.patch.object(registry, "expect_nothing"),
                mock.patch.object(registry, "installations_here", return_value=[]),
            ):
                self.assertTrue(command.advise())
                self.assertEqual(command.stdout.getvalue(), f"{said}\n")

    def test_a_busy_database_does_not_end_the_site(self) -> None:
        command = up.Command(stdout=StringIO())
        locked = OperationalError("database is locked")
        with mock.patch.object(registry, "expect_nothing", side_effect=locked):
            self.assertFalse(command.advise())
        self.assertEqual(command.stdout.getvalue(), "")
