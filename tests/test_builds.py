"""Builds of this host: probing, registering, installing, removing."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings

from runner import build_install, builds, harness, venvs
from runner.builds import BuildError
from runner.models import Build, Installation
from tests.builds import torch_python

ROOT = Path(settings.BASE_DIR)
READY, BROKEN, MISSING = Installation.State


class Folder(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.lines: list[str] = []


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def own_python(path: Path) -> Path:
    """Somebody's own interpreter with torch, which may go away."""
    return program(path, f'exec "{torch_python()}" "$@"')


class RegisterTest(Folder, TestCase):
    kept: Path
    python: Path
    installation: Installation

    @classmethod
    def setUpTestData(cls) -> None:
        cls.kept = Path(tempfile.mkdtemp(prefix="with space "))
        cls.addClassCleanup(shutil.rmtree, cls.kept)
        cls.python = own_python(cls.kept / "bin" / "python")
        # An environment may be named by its folder.
        cls.installation = builds.add_python(cls.kept)

    def setUp(self) -> None:
        super().setUp()
        own_python(self.python)
        self.slug = self.installation.build_id or ""

    def test_a_build_is_what_its_torch_says(self) -> None:
        hello = builds.probe(self.python)["identity"]
        build = Build.objects.get()
        self.assertEqual(self.installation.build, build)
        self.assertEqual((build.slug, build.raw), (hello["slug"], hello["raw"]))
        self.assertEqual(build.python, hello["python"])
        self.assertEqual(self.installation.interpreter, str(self.python))
        self.assertEqual(self.installation.state, READY)
        self.assertFalse(self.installation.managed)
        packages = self.installation.packages
        self.assertEqual(packages["numpy"], hello["packages"]["numpy"])
        self.assertEqual(builds.installation_for(build.slug), self.installation)
        self.assertEqual(builds.default_installation(), self.installation)
        self.assertIsNone(builds.installation_for("1.0.0-cpu"))

    def test_a_vanished_interpreter_serves_nothing(self) -> None:
        self.python.unlink()
        self.assertIsNone(builds.installation_for(self.slug))
        builds.register(self.python, managed=False)
        self.assertEqual(Installation.objects.get().state, MISSING)
        self.assertTrue(Build.objects.filter(slug=self.slug).exists())

    def test_a_python_that_broke_says_why(self) -> None:
        program(self.python, "echo no such library >&2; exit 3")
        installation = builds.register(self.python, managed=False)
        self.assertEqual(installation.state, BROKEN)
        self.assertIn("no such library", installation.error)
        self.assertIsNone(builds.default_installation())

    def test_a_python_without_torch_is_refused(self) -> None:
        with self.assertRaisesMessage(BuildError, "No module named 'torch'"):
            builds.add_python(Path(sys.executable))
        with self.assertRaisesMessage(BuildError, "not a Python that can be started"):
            builds.add_python(self.folder / "nothing")
        self.assertEqual(Installation.objects.count(), 1)

    def test_scan_takes_what_is_known_and_what_is_declared(self) -> None:
        program(self.python, "exit 3")
        declared, gone = self.folder / "python", self.folder / "gone"
        own_python(declared)
        with override_settings(BUILDS=[declared, gone], BUILDS_DIR=self.folder):
            rows = builds.scan(self.lines.append)
        found = {row.interpreter: row.state for row in rows}
        self.assertEqual(found[str(self.python)], BROKEN)
        self.assertEqual(found[str(declared)], READY)
        self.assertEqual(found[str(gone)], MISSING)
        self.assertIn(str(gone), "\n".join(self.lines))
        self.assertNotIn(sys.executable, found)

    def test_remove_forgets_a_foreign_environment_and_leaves_it(self) -> None:
        out = StringIO()
        call_command("builds", "remove", self.slug, stdout=out)
        self.assertIn("forgot", out.getvalue())
        self.assertTrue(self.python.exists())
        self.assertFalse(Installation.objects.exists())
        call_command("builds", "list", stdout=out)
        self.assertIn(f"{self.slug}: not installed here", out.getvalue())
        with self.assertRaisesMessage(CommandError, "is not installed on this host"):
            call_command("builds", "remove", self.slug)

    def test_remove_deletes_what_was_installed_here(self) -> None:
        with override_settings(BUILDS_DIR=self.folder):
            python = own_python(self.folder / "mine" / "bin" / "python")
            installation = builds.register(python, managed=True)
            self.assertGreater(installation.disk_bytes, 0)
            builds.remove(self.slug)
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertTrue(self.python.exists())


class InstallTest(Folder):
    def attempts(self, cuda: bool) -> list[tuple[str, str]]:
        attempts = build_install.attempts_for_default(cuda)
        return [(attempt.requirements[0], attempt.source) for attempt in attempts]

    def test_the_order_of_the_ways_to_a_default_build(self) -> None:
        cpu = ("torch==2.13.0+cpu", "the configured indexes")
        with override_settings(TORCH_INDEX_URL=""):
            self.assertEqual(self.attempts(True)[0], cpu)
            self.assertEqual(
                self.attempts(True)[1:], [("torch==2.13.0", "the configured indexes")]
            )
            wanted = 2 if build_install.has_nvidia_gpu() else 1
            self.assertEqual(len(self.attempts(False)), wanted)
        with override_settings(TORCH_INDEX_URL="file:///nowhere"):
            self.assertEqual(
                self.attempts(True)[:2], [cpu, (cpu[0], "TORCH_INDEX_URL")]
            )

    def test_a_release_gets_what_it_imports(self) -> None:
        def requirements(version: str) -> list[str]:
            attempt = build_install.attempt_for_version(version, ["peft==0.15.0"])
            return attempt.requirements

        self.assertEqual(
            requirements("2.1.2"),
            ["torch==2.1.2", "numpy<2", "setuptools<81", "peft==0.15.0"],
        )
        self.assertIn("setuptools<81", requirements("2.6.0"))
        self.assertNotIn("setuptools<81", requirements("2.11.0"))
        self.assertIn("numpy", requirements("2.13.0"))
        for bad in ("", "two", "-r file", "2.0; import os"):
            with self.assertRaises(BuildError):
                build_install.attempt_for_version(bad, [])

    def test_what_is_no_wheel_is_refused(self) -> None:
        path = self.folder / "torch.whl"
        path.write_text("")
        with self.assertRaisesMessage(BuildError, "is not a wheel file"):
            build_install.add_wheel(path, [], self.lines.append)

    def installer(self, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", "builds", "add", "--install-only"],
            cwd=ROOT,
            env={**os.environ, "BUILDS_DIR": str(self.folder), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def test_a_failed_installation_says_what_was_tried_and_leaves_nothing(self) -> None:
        empty = self.folder / "wheels"
        empty.mkdir()
        process = self.installer(
            PIP_NO_INDEX="1", PIP_FIND_LINKS=f"file://{empty}", TORCH_INDEX_URL=""
        )
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, output)
        self.assertIn("torch==2.13.0+cpu from the configured indexes", output)
        self.assertIn("No matching distribution", output)
        left = {path.name for path in self.folder.iterdir()}
        self.assertEqual(left, {"wheels", venvs.LOCK_NAME})

    def test_a_killed_installation_is_no_build_and_is_swept(self) -> None:
        with self.installer() as process:
            assert process.stdout
            self.assertIn("Installing torch", process.stdout.readline())
            with override_settings(BUILDS_DIR=self.folder):
                self.assertEqual(builds.being_installed(), ["2.13.0-cpu"])
                with self.assertRaisesMessage(BuildError, f"process {process.pid} is"):
                    build_install.install([], self.lines.append)
            process.kill()
        # A child caught between fork and exec holds the lock until it is dead too.
        with (self.folder / venvs.LOCK_NAME).open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
        (self.folder / "2.13.0-cpu" / "bin").mkdir(parents=True, exist_ok=True)
        with override_settings(BUILDS_DIR=self.folder):
            self.assertEqual(builds.being_installed(), [])
            self.assertIsNone(builds.default_interpreter())
            self.assertEqual(builds.managed_interpreters(), [])
            with self.assertRaises(BuildError):
                build_install.install([], self.lines.append)
        self.assertEqual([p.name for p in self.folder.iterdir()], [venvs.LOCK_NAME])

    def test_a_torch_that_does_not_start_is_not_kept(self) -> None:
        program(self.folder / "broken" / "bin" / "python", "exit 1")
        attempt = build_install.Attempt("broken", ["torch"])
        with override_settings(BUILDS_DIR=self.folder), self.assertRaises(BuildError):
            build_install.add([attempt], self.lines.append)
        self.assertFalse((self.folder / "broken").exists())


class DefaultBuildTest(SimpleTestCase):
    def test_it_runs_the_record_every_build_can_run(self) -> None:
        repro = ROOT / "fixtures/issues/checkpoint-reentrant-lost-grad/repro.py"
        start = harness.start_plain(torch_python(), str(repro))
        evidence = harness.drive(repro.read_text(), start)
        self.assertIn(evidence["verdict"], ("bug_present", "bug_absent"), evidence)
