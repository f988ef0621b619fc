"""What `make run` says before anything is installed."""

import ast
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.test import SimpleTestCase

from config import bootstrap, datadir
from runner.builds import venvs
from tests.runner.builds.test_install import stand_in_wheel
from tests.support.loopback import free_port

ROOT = Path(settings.BASE_DIR)
SCRIPT = ROOT / "config" / "bootstrap.py"
# What it reads of a clone before it installs anything.
NEEDED = (
    "config/bootstrap.py",
    "runner/__init__.py",
    "runner/builds/venvs.py",
    *set(bootstrap.LOCKS.values()),
)
OLD = ("python3.6", "python3.7", "python3.8", "python3.9", "python3.10")


def interpreter(name: str) -> str:
    """The program behind a name on the PATH, which may be a version manager's."""
    path = shutil.which(name)
    if not path:
        return ""
    command = [path, "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


class BootstrapTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.clone = self.folder / "clone"
        for name in NEEDED:
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.clone / name)
        self.data = self.clone / "var"
        self.port = free_port()

    def check(
        self, python: str = sys.executable, *, goal: str = "check", **env: str
    ) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "DATA_DIR": "", "BUILDS_DIR": ""}
        environ |= {"PORT": str(self.port), "HOST": "127.0.0.1", **env}
        return subprocess.run(
            [python, str(self.clone / "config" / "bootstrap.py"), goal],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def assert_refused(
        self, done: subprocess.CompletedProcess[str], *texts: str
    ) -> None:
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(lines), 1 + len(texts), done.stdout)
        for line, text in zip(lines[1:], texts, strict=True):
            self.assertIn(text, line)

    def test_nothing_is_missing(self) -> None:
        done = self.check()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertFalse(self.data.exists())

    def test_the_site_hears_which_python_it_was_called_with(self) -> None:
        python = self.clone / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\necho "called with $CALLING_PYTHON"\n')
        python.chmod(0o755)
        digest = bootstrap.lock_digest("run")
        (self.clone / ".venv" / ".requirements.txt.digest").write_text(digest)
        done = self.check(goal="run", CALLING_PYTHON="")
        self.assertEqual(done.stdout, f"called with {sys.executable}\n")

    def test_an_old_python_can_read_it(self) -> None:
        ast.parse(SCRIPT.read_text(), feature_version=(3, 6))

    def test_an_old_python_is_told_what_to_install(self) -> None:
        old = list(filter(None, map(interpreter, OLD)))
        if not old:
            self.skipTest(f"none of {', '.join(OLD)} is on the PATH")
        empty = self.folder / "empty"
        empty.mkdir()
        for python in old:
            with self.subTest(python=python):
                done = self.check(python, PATH=str(empty))
                self.assert_refused(done, "is too old, 3.11 or newer is needed")

    def test_a_python_without_ensurepip(self) -> None:
        (self.folder / "ensurepip.py").write_text("raise ImportError('stripped')")
        done = self.check(PYTHONPATH=str(self.folder))
        self.assert_refused(done, "has no ensurepip: ")

    def test_a_port_in_use_and_one_that_is_none(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assert_refused(self.check(PORT=str(port)), f"port {port} is in use")
        self.assert_refused(self.check(PORT="http"), "PORT must be a number")

    def test_a_second_one_beside_it(self) -> None:
        self.data.mkdir()
        taken = socket.create_server(("127.0.0.1", self.port))
        with taken, (self.data / "run.lock").open("w") as lock:
            lock.write("4711")
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assert_refused(self.check(), "running already (process 4711)")

    def test_a_folder_that_cannot_be_written(self) -> None:
        # Nothing can be made below /proc, not even by root.
        done = self.check(DATA_DIR="/proc/self/data")
        self.assert_refused(done, "/proc/self cannot be written: ")

    def test_each_closed_folder_comes_with_what_helps_there(self) -> None:
        closed = Path("/proc/self")
        with mock.patch.object(bootstrap, "ROOT", closed):
            for data, helps in (
                (str(closed), ["clone the repository"]),
                ("/proc/1/var", ["clone the repository", "set DATA_DIR"]),
                (str(self.folder), ["clone the repository"]),
            ):
                with mock.patch.dict(os.environ, DATA_DIR=data):
                    lines = bootstrap.missing_write(ready=False)
                self.assertEqual(len(lines), len(helps), lines)
                for line, hint in zip(lines, helps, strict=True):
                    self.assertIn(hint, line)
            # What is installed already asks nothing of the clone.
            with mock.patch.dict(os.environ, DATA_DIR=str(self.folder)):
                self.assertEqual(bootstrap.missing_write(ready=True), [])

    def test_an_index_that_does_not_answer_is_named(self) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            index = f"http://name:secret@127.0.0.1:{closed.getsockname()[1]}/simple"
            settings_of_pip = {"PIP_INDEX_URL": index, "PIP_RETRIES": "1"}
            empty = {"PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""}
            with (
                mock.patch.dict(os.environ, settings_of_pip | empty),
                self.assertRaises(venvs.InstallError) as failed,
            ):
                target = ["--target", str(self.folder / "none"), "does-it-nan-none"]
                venvs.pip_install(Path(sys.prefix), target, print)
        text = str(failed.exception)
        self.assertIn("pip could not connect to 127.0.0.1\n", text)
        self.assertNotIn("secret", text)

    def test_what_pip_says_is_shown_whole_and_the_index_where_it_matters(self) -> None:
        wheels = self.folder / "wheels"
        wheel = stand_in_wheel(wheels, "1.0", "x = 1", name="asking", needs="asked-for")
        stand_in_wheel(wheels, "2.0", "x = 1", name="asked_for")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri()}
        offline |= {"PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""}
        for pinned, said, is_of_the_index in (
            (f"asking==1.0 --hash=sha256:{digest}", "asked-for", False),
            (f"absent==1.0 --hash=sha256:{digest}", "found for absent==1.0", True),
            (f"asking==1.0 --hash=sha256:{digest[::-1]}", "Expected sha256", True),
        ):
            (self.clone / "requirements.txt").write_text(pinned)
            done = self.check(goal="run", **offline)
            with self.subTest(pinned):
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stdout.partition("ERROR")[2])
                self.assertEqual(bootstrap.INDEX in done.stdout, is_of_the_index)

    def test_much_that_pip_says_is_cut_in_its_middle(self) -> None:
        said = ["ERROR: a build failed:", *map(str, range(100)), "ERROR: asking"]
        shown = venvs.errors_of(["Collecting x", "WARNING: old", *said])
        self.assertEqual([shown[0], shown[-1]], [said[0], said[-1]])
        self.assertEqual(len(shown), venvs.MOST_LINES + 1)
        self.assertIn("... 62 lines more ...", shown)
        secret = venvs.errors_of(["ERROR: no", "from https://name:secret@host/x"])
        self.assertEqual(secret[1], "from https://host/x")

    def test_too_little_space_is_one_line_for_each_disk(self) -> None:
        folders = {self.folder / "a": 1, self.folder / "b": 2}
        self.assertEqual(bootstrap.missing_space(folders), [])
        folders = {self.folder / "a": 10**9, self.folder / "b": 10**8}
        found = bootstrap.missing_space(folders)
        self.assertEqual(len(found), 1)
        self.assertIn("1000000000 MiB are needed", found[0])

    def test_all_problems_come_in_one_list(self) -> None:
        done = self.check(PORT="0", DATA_DIR="/proc/self/data")
        self.assert_refused(done, "cannot be written", "PORT must be a number")

    def test_the_client_needs_neither_a_port_nor_a_build(self) -> None:
        needed = bootstrap.space_needed("client", ready=False)
        self.assertNotIn(bootstrap.BUILD_MIB, needed.values())
        with mock.patch.dict("os.environ", PORT="0"):
            self.assertEqual(bootstrap.problems("client"), [])

    def test_no_goal_is_a_usage_error(self) -> None:
        done = subprocess.run(
            [sys.executable, SCRIPT], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout.strip()), (2, bootstrap.USAGE))

    def test_it_looks_where_the_site_does(self) -> None:
        self.assertEqual(bootstrap.data_dir(), datadir.DATA_DIR)
        self.assertEqual(bootstrap.builds_dir(), settings.BUILDS_DIR)


class DataDirTest(SimpleTestCase):
    def test_a_folder_that_others_could_read_is_closed_to_them(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "data")
            for before, after in ((0o755, 0o750), (0o770, 0o770), (0o700, 0o700)):
                path.mkdir(exist_ok=True)
                path.chmod(before)
                with mock.patch.multiple(
                    datadir, DATA_DIR=path, SECRET_KEY_FILE=path / "secret_key"
                ):
                    datadir.ensure()
                self.assertEqual(path.stat().st_mode & 0o777, after)
                self.assertEqual((path / "secret_key").stat().st_mode & 0o777, 0o600)
