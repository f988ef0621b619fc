"""Installing torch builds: interrupted at any point, from wheels."""

import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import zipfile
from io import StringIO
from pathlib import Path
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings, tag

from runner.builds import install, pins, registry, sizes, venvs
from runner.builds.probe import BuildError
from tests.runner.builds.test_builds import STAND_IN, Folder, program
from tests.support.package_index import PackageIndexes

ROOT = Path(settings.BASE_DIR)


def stand_in_wheel(
    folder: Path, version: str, code: str = "", name: str = "torch", needs: str = ""
) -> Path:
    """A wheel whose package only says who it is; for torch as the harness asks it."""
    tag = "py3-none-any"
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": code or STAND_IN.format(version=version),
        f"{info}/METADATA": "Metadata-Version: 2.1\n"
        f"Name: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    files[f"{info}/RECORD"] = "".join(
        f"{name},,\n" for name in [*files, f"{info}/RECORD"]
    )
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in files.items():
            wheel.writestr(inside, text)
    return path


def offline(wheels: Path) -> dict[str, str]:
    """pip's settings by which everything comes from one folder."""
    stand_in_wheel(wheels, "2.4.6", "x = 1", name="numpy")
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": wheels.as_uri(),
        "PIP_EXTRA_INDEX_URL": "",
        "TORCH_INDEX_URL": "",
    }


class SettingsTest(SimpleTestCase):
    """What pip is configured with, and what is on disk."""

    def test_the_strongest_setting_of_pip_counts(self) -> None:
        found = venvs.parse_settings(
            "global.index-url='https://mirror/simple'\n"
            "install.find-links='/wheels'\n"
            "global.find-links='/others'\n"
            "global.extra-index-url='\\nhttps://a/simple\\nhttps://b/simple'\n"
            ":env:.timeout='9'\n"
            "global.timeout='60'\n"
            "freeze.timeout='1'\n"
        )
        self.assertEqual(found["index-url"], "https://mirror/simple")
        self.assertEqual((found["find-links"], found["timeout"]), ("/wheels", "9"))

    def test_the_wheel_that_pip_would_take_from_a_folder(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for version in ("9.9.0+cpu", "9.8.0+cpu", "9.9.1"):
                stand_in_wheel(Path(folder), version)
            links = [Path(folder).as_uri(), "https://elsewhere/links.html"]
            self.assertEqual(sizes.torch_among(links, "torch==9.9.0"), "9.9.0+cpu")
            self.assertEqual(sizes.torch_among([folder], "torch==9.9.1"), "9.9.1")
            self.assertEqual(sizes.torch_among([folder], "torch==2.6.0"), "")

    def test_shared_files_count_once(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            one, two = Path(folder, "one"), Path(folder, "two")
            for path in (one, two):
                path.mkdir()
            (one / "library").write_bytes(b"x" * install.MIB)
            alone = venvs.disk_bytes(one)
            (two / "library").hardlink_to(one / "library")
            (one / "again").hardlink_to(one / "library")
            self.assertEqual(venvs.disk_bytes(one), alone)
            self.assertEqual(venvs.disk_bytes(one, two), alone)
            self.assertGreaterEqual(alone, install.MIB)

    def test_what_vanishes_while_files_are_counted_is_left_out(self) -> None:
        """As the files do that compiling writes before it renames them."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "library").write_bytes(b"x" * install.MIB)
            alone = venvs.disk_bytes(Path(folder))
            seen = [(folder, [], ["gone.pyc.1397", "library"])]
            with mock.patch.object(os, "walk", return_value=seen):
                self.assertEqual(venvs.disk_bytes(Path(folder)), alone)


@tag("long")
class InstallTest(Folder):
    def attempts(self, cuda: bool) -> list[tuple[str, str]]:
        attempts = install.attempts_for_default(cuda)
        return [(attempt.requirements[0], attempt.source) for attempt in attempts]

    def test_what_cannot_be_deleted_is_no_environment(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "2.13.0-cpu")
            folder.mkdir()
            with mock.patch.object(shutil, "rmtree"):
                venvs.remove(folder)
            self.assertTrue(venvs.marker_of(folder).exists())
            venvs.remove(folder)
            self.assertEqual(list(Path(name).iterdir()), [])

    def test_other_requirements_are_another_folder(self) -> None:
        signs = ("==2", "<2", "<=2", ">2", ">=2", "!=2", "~=2")
        names = {install.name_of("2.6.0", [f"numpy{sign}"]) for sign in signs}
        self.assertEqual(len(names), len(signs))
        self.assertIn("2.6.0-with-numpy-2", names)

    def test_the_order_of_the_ways_to_a_default_build(self) -> None:
        cpu, cuda = "torch==2.13.0+cpu", "torch==2.13.0"
        configured, own = "the configured indexes", "PyTorch's own index"
        online = mock.patch.dict(os.environ, PIP_NO_INDEX="0")
        with online, override_settings(TORCH_INDEX_URL=""):
            self.assertEqual(
                self.attempts(True), [(cpu, configured), (cuda, configured), (cpu, own)]
            )
            if not pins.has_nvidia_gpu():
                self.assertEqual(self.attempts(False), [(cpu, configured), (cpu, own)])
        with online, override_settings(TORCH_INDEX_URL="file:///nowhere"):
            self.assertEqual(
                self.attempts(True),
                [(cpu, configured), (cpu, "TORCH_INDEX_URL"), (cuda, configured)],
            )
        with online, override_settings(TORCH_INDEX_URL="none"):
            self.assertEqual(
                self.attempts(True), [(cpu, configured), (cuda, configured)]
            )

    def test_a_release_gets_what_it_imports(self) -> None:
        def requirements(version: str) -> list[str]:
            attempt = install.attempt_for_version(version, ["peft==0.15.0"])
            return attempt.requirements

        self.assertEqual(
            requirements("2.1.2"),
            ["torch==2.1.2", "numpy<2", "setuptools<81", "peft==0.15.0"],
        )
        for release in ("2.6.0", "2.10.0"):
            self.assertIn("setuptools<81", requirements(release))
        self.assertNotIn("setuptools<81", requirements("2.11.0"))
        self.assertIn("numpy", requirements("2.13.0"))
        for bad in ("", "two", "-r file", "2.0; import os"):
            with self.assertRaises(BuildError):
                install.attempt_for_version(bad, [])

    def test_what_is_named_beside_torch(self) -> None:
        fla = "git+https://example.org/fla-org/flash-linear-attention@b4ff1936"
        attempt = install.attempt_for_version("2.13.0", ["peft==0.15.0", fla])
        self.assertEqual(attempt.sources, [fla])
        self.assertIn("peft==0.15.0", attempt.requirements)
        self.assertEqual(
            attempt.name, "2.13.0-with-peft-0.15.0-with-flash-linear-attention-b4ff1936"
        )
        for bad in ("", "-r file", "--index-url=x"):
            with self.assertRaisesMessage(BuildError, "is not a requirement"):
                install.attempt_for_version("2.13.0", [bad])

    def test_what_is_no_wheel_is_refused(self) -> None:
        path = self.folder / "torch.whl"
        path.write_text("")
        with self.assertRaisesMessage(BuildError, "is not a wheel file"):
            install.attempt_for_wheel(path, [])

    def installer(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, **env: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", "builds", "add", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.folders(), **env},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def folders(self) -> dict[str, str]:
        """Of its own: what it tells of its progress stands on other tests' pages."""
        data = self.enterContext(tempfile.TemporaryDirectory())
        return {"BUILDS_DIR": str(self.folder), "DATA_DIR": data}

    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    def test_a_failed_installation_says_what_was_tried_and_leaves_nothing(self) -> None:
        empty = self.folder / "wheels"
        empty.mkdir()
        process = self.installer(
            "--install-only",
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=empty.as_uri(),
            TORCH_INDEX_URL="",
        )
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 2, output)
        self.assertIn("torch==2.13.0+cpu from the configured indexes", output)
        self.assertIn("No matching distribution", output)
        self.assertEqual(self.left(), {"wheels", venvs.LOCK_NAME})

    def test_a_large_download_is_announced_and_asked_for(self) -> None:
        (self.folder / "empty").mkdir()
        indexes = self.enterContext(PackageIndexes(self.folder))
        nowhere = {**indexes.environ, **indexes.alone("empty")}
        arguments = ("--cuda", "--install-only")
        size = "2630 MiB to download"
        refused, gone_on = "Nothing was downloaded", "torch==2.13.0 from the"
        for answer, extra, said, unsaid in (
            (None, [], [size, f"{refused}: more than 500 MiB", "--yes"], "Go on?"),
            (None, ["--yes"], [size, gone_on], refused),
            ("n\n", [], [size, "Go on? [y/N]", refused], gone_on),
            ("y\n", [], [size, gone_on], refused),
        ):
            ours, theirs = pty.openpty()
            if answer:
                os.write(ours, answer.encode())
            process = self.installer(
                *arguments,
                *extra,
                stdin=theirs if answer else subprocess.DEVNULL,
                **nowhere,
                TORCH_INDEX_URL="none",
            )
            output, _ = process.communicate(timeout=300)
            os.close(ours)
            os.close(theirs)
            with self.subTest(answer=answer, extra=extra):
                self.assertEqual(process.returncode, 2, output)
                for text in said:
                    self.assertIn(text, output)
                self.assertNotIn(unsaid, output)

    def test_a_release_by_its_number_is_asked_for_too(self) -> None:
        wheels = self.folder / "wheels"
        stand_in_wheel(wheels, "9.9.0")
        with (
            mock.patch.dict(os.environ, offline(wheels)),
            mock.patch.object(sizes, "ASK_ABOVE_MIB", -1),
            override_settings(BUILDS_DIR=self.folder),
            self.assertRaisesMessage(CommandError, "Pass --yes"),
        ):
            call_command("builds", "add", "9.9.0", "--install-only", stdout=StringIO())
        self.assertEqual(self.left(), {"wheels", venvs.LOCK_NAME})

    def test_the_size_is_that_of_a_wheel_of_its_kind(self) -> None:
        with mock.patch.dict(os.environ, PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull):
            for version, least, most in (("2.5.1", 2000, 4000), ("2.5.1+cpu", 1, 500)):
                mib, said = sizes.of(install.attempt_for_version(version, []))
                self.assertTrue(least < mib < most, mib)
                self.assertIn("as torch 2.13.0", said)

    def test_a_torch_that_does_not_start_is_not_kept(self) -> None:
        wheels = self.folder / "wheels"
        stand_in_wheel(wheels, "9.9.0", "raise ImportError('libcudart.so: gone')")
        process = self.installer("9.9.0", "--install-only", **offline(wheels))
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 2, output)
        self.assertIn("libcudart.so: gone", output)
        self.assertEqual(self.left(), {"wheels", venvs.LOCK_NAME})

    def test_killed_at_any_point_it_is_no_build_and_is_swept(self) -> None:
        wheels = self.folder / "wheels"
        stand_in_wheel(wheels, "9.9.0")
        for stage in ("Installing torch", "Compiling its", "Starting its torch"):
            with (
                self.subTest(stage),
                self.installer("9.9.0", **offline(wheels)) as process,
                override_settings(BUILDS_DIR=self.folder, DATA_DIR=self.folder),
            ):
                assert process.stdout
                next(line for line in process.stdout if line.startswith(stage))
                self.assertEqual(registry.being_installed(), ["9.9.0"])
                with self.assertRaisesMessage(BuildError, f"process {process.pid} is"):
                    install.install([], self.lines.append)
                process.kill()
                # What it started is killed with it, and holds the lock until then.
                with (self.folder / venvs.LOCK_NAME).open() as held:
                    fcntl.flock(held, fcntl.LOCK_EX)
                (self.folder / "9.9.0" / "bin").mkdir(parents=True, exist_ok=True)
                self.assertEqual(registry.being_installed(), [])
                self.assertEqual(registry.interrupted(), ["9.9.0"])
                self.assertIsNone(registry.default_interpreter())
                self.assertEqual(registry.managed_interpreters(), [])
                registry.sweep()
                self.assertEqual(self.left(), {"wheels", venvs.LOCK_NAME})


class WheelTest(Folder, TestCase):
    def test_one_that_was_there_and_broke_is_not_deleted(self) -> None:
        program(self.folder / "broken" / "bin" / "python", "exit 1")
        attempt = install.Attempt("broken", ["torch"])
        with (
            override_settings(BUILDS_DIR=self.folder, DATA_DIR=self.folder),
            self.assertRaises(BuildError),
        ):
            install.add([attempt], self.lines.append)
        self.assertTrue((self.folder / "broken").exists())

    def test_a_wheel_file_becomes_a_build_and_is_not_replaced_in_silence(self) -> None:
        wheels = self.folder / "wheels"
        version = "9.9.0.dev20260901+cpu"
        wheel = stand_in_wheel(wheels, version)
        stand_in_wheel(wheels, "4.34.1", "x = 1", name="transformers")
        out = StringIO()
        add = ["builds", "add", "--wheel", str(wheel), "--with", "transformers==4.34.1"]
        with (
            mock.patch.dict(os.environ, offline(wheels)),
            override_settings(BUILDS_DIR=self.folder / "builds", DATA_DIR=self.folder),
        ):
            call_command(*add, stdout=out)
            self.assertIn("9.9.0.dev20260901-cpu: ready", out.getvalue())
            with self.assertRaisesMessage(CommandError, "Remove that one first"):
                call_command(*add, stdout=out)
            listed = StringIO()
            call_command("builds", "list", "--json", stdout=listed)
        found = json.loads(listed.getvalue())
        (row,) = found["builds"]
        self.assertEqual((row["raw"], row["managed"]), (version, True))
        self.assertEqual(row["with"], ["transformers==4.34.1"])
        self.assertEqual(row["packages"]["transformers"], "4.34.1")
