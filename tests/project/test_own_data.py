"""Tests leave the site alone that runs from the same clone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, tag

from config import bootstrap
from runner.pool import client, keeper
from runner.worker import execution
from tests import ROOT
from tests.support.sites import wait_for

# It starts checks as a worker does.
ONE = (
    "tests.runner.worker.test_run_repro."
    "RunReproTest.test_json_is_all_there_is_on_standard_output"
)


class SettingsTest(SimpleTestCase):
    def test_a_wrong_setting_is_one_line(self) -> None:
        nowhere = "postgres://127.0.0.1:9/none"
        for name, value, said in (
            ("LOG_DAYS", "soon", "LOG_DAYS must be a whole number, not 'soon'."),
            # A lease of nothing has lapsed when it is given.
            ("LEASE_SECONDS", "0", "LEASE_SECONDS must be a whole number from 1 on"),
            ("PORT", "70000", "PORT cannot be read: it is from 1 to 65535."),
            ("BUILDS", '"open', "BUILDS cannot be read: No closing quotation."),
            # Nobody makes a folder there: they are no disks, and one is no folder.
            ("DATA_DIR", "/sys/none", "DATA_DIR cannot be used: [Errno "),
            ("DATA_DIR", "/proc/none", "DATA_DIR cannot be used: [Errno "),
            ("DATA_DIR", "/dev/null", "DATA_DIR cannot be used: [Errno "),
            ("SITE_URL", "kb.example", "SITE_URL cannot be read: it begins with"),
            ("DATABASE_URL", "none", "DATABASE_URL cannot be read: Scheme"),
            ("DATABASE_URL", nowhere, "the database (DATABASE_URL): connection"),
        ):
            with self.subTest(f"{name}={value}"):
                done = subprocess.run(
                    [sys.executable, "manage.py", "migrate", "--check"],
                    cwd=ROOT,
                    env={**os.environ, name: value},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 1)
                self.assertTrue(done.stderr.startswith(f"manage.py: {said}"), done)
                self.assertNotIn("Traceback", done.stderr)


@tag("any_database")
class CommandTest(TestCase):
    def test_who_reads_no_further_hears_of_no_error(self) -> None:
        inner, outer = os.pipe()
        os.close(inner)
        done = subprocess.run(
            [sys.executable, "manage.py", "spectacular"],
            cwd=ROOT,
            stdout=outer,
            stderr=subprocess.PIPE,
        )
        os.close(outer)
        self.assertEqual(done.returncode, 2)
        self.assertNotIn(b"Traceback", done.stderr)

    def test_a_full_disk_is_one_line(self) -> None:
        call = [sys.executable, "manage.py", "spectacular"]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(call, cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"manage.py: [Errno 28] No space left", done.stderr)
        self.assertNotIn(b"Traceback", done.stderr)

    def test_a_key_that_a_full_disk_cut_off_is_made_again(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            key = Path(name, "secret_key")
            key.touch(mode=0o600)
            code = "from config import datadir; datadir.ensure()"
            environ = {**os.environ, "DATA_DIR": name}
            for _ in range(2):
                subprocess.run(
                    [sys.executable, "-c", code], cwd=ROOT, env=environ, check=True
                )
                made = key.read_text()
                self.assertGreater(len(made), 20)
            self.assertEqual(key.read_text(), made)
            self.assertEqual(key.stat().st_mode & 0o777, 0o600)

    def test_what_is_named_wrongly_is_refused(self) -> None:
        for call, said in (
            ("worker --drain --name none", "No worker none@"),
            ("build_client --site kb.example", "--site begins with https://"),
        ):
            with self.assertRaisesMessage(CommandError, said):
                call_command(*call.split())


class OwnDataTest(SimpleTestCase):
    def test_what_tests_write_to_is_not_the_clone_s(self) -> None:
        written = (
            settings.DATA_DIR,
            settings.BUILDS_DIR,
            settings.DATABASES["default"]["NAME"],
            settings.CELERY_BROKER_URL.removeprefix("kbfs://"),
            execution.pool_socket(),
        )
        for path in map(str, written):
            self.assertNotIn(str(ROOT / "var"), path)
        # Processes that tests start find the same folder.
        self.assertEqual(bootstrap.data_dir(), settings.DATA_DIR)

    def test_a_site_that_runs_meanwhile_keeps_pool_and_data_to_itself(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        socket = str(folder / "pool.sock")
        pool = subprocess.Popen(keeper.command(socket, 2048), cwd=ROOT)
        self.addCleanup(pool.wait, 60)
        self.addCleanup(pool.terminate)
        wait_for(lambda: client.is_there(socket), "the pool listens")
        before = sorted(folder.rglob("*"))
        done = subprocess.run(
            [sys.executable, "manage.py", "test", "-v0", ONE],
            cwd=ROOT,
            env={**os.environ, "DATA_DIR": str(folder), "DATABASE_URL": ""},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(folder.rglob("*")), before)
        found = client.status(socket)
        assert found
        self.assertEqual(
            (found["parents"], found["served"], found["cold"]), ([], 0, {})
        )
