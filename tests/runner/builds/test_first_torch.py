"""How a site gets its first torch: where it looks, in which order, and what it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase, override_settings, tag

from runner.builds import candidates, pins
from tests.runner.builds.test_builds import program, stand_in
from tests.runner.builds.test_install import stand_in_wheel
from tests.support.package_index import PackageIndexes
from tests.support.sites import Site

ROOT = Path(settings.BASE_DIR)
# The settings of a site whose builds.toml names an index on the loopback as the public.
SETTINGS = """\
from config.settings import *
BUILDS_FILE = Path({path!r})
"""
SLUG, TORCH = "2.13.0-cpu", "2.13.0+cpu"


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of everything in a folder: whoever writes there changes it."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in [folder, *folder.rglob("*")]
    }


@tag("long")
class FirstTorchTest(SimpleTestCase):
    """Real installations, of a torch that only says who it is, without any network."""

    database: Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = Path(tempfile.mkdtemp(prefix="doesitnan-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.database = Site(folder / "site").migrate()

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="with space "))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("home", "path", "index/public", "index/named"):
            (self.folder / name).mkdir(parents=True)
        self.site = Site(self.folder / "data", self.database)
        self.indexes = self.enterContext(PackageIndexes(self.folder / "index"))
        public = f"{self.indexes.address}/public/"
        text = settings.BUILDS_FILE.read_text()
        builds = self.folder / "builds.toml"
        builds.write_text(re.sub(r'(?m)^cpu = ".*"$', f'cpu = "{public}"', text))
        (self.folder / "own_settings.py").write_text(SETTINGS.format(path=str(builds)))

    def serve(self, index: str) -> None:
        """Put the wheels of the default build into an index."""
        for name, version in (("torch", TORCH), ("numpy", "2.4.6")):
            code = "" if name == "torch" else "x = 1"
            place = self.folder / "index" / index / name
            stand_in_wheel(place, version, code, name=name)

    def environ(self, **env: str) -> dict[str, str]:
        """Of somebody who has just logged in: no settings of pip, an empty HOME."""
        return {
            **self.indexes.environ,
            "HOME": str(self.folder / "home"),
            "PATH": str(self.folder / "path"),
            "DATA_DIR": str(self.site.folder),
            "SECRET_KEY": "test",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(self.folder),
            "DJANGO_SETTINGS_MODULE": "own_settings",
            "PIP_CONFIG_FILE": os.devnull,
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(self.folder / "cache"),
            **env,
        }

    def scan(self, status: int = 0, **env: str) -> list[str]:
        """What a first start does about torch, and the lines it says."""
        process = self.start(**env)
        output, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, status, output)
        return output.splitlines()

    def start(self, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", "builds", "scan", "--install-default"],
            cwd=ROOT,
            env=self.environ(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def assert_said(self, lines: list[str], *texts: str) -> None:
        """Each text is part of a line, in this order."""
        rest = iter(lines)
        for text in texts:
            self.assertTrue(any(text in line for line in rest), (text, lines))

    def installed(self) -> list[tuple[str, str]]:
        query = "SELECT build_id, state FROM runner_installation ORDER BY build_id"
        return [(slug, state) for slug, state in self.site.sql(query)]

    def test_a_machine_without_any_takes_the_wheel_of_the_public_index(self) -> None:
        self.serve("public")
        lines = self.scan()
        self.assert_said(
            lines,
            "No torch on this machine yet",
            f"Installing torch=={TORCH} from the configured indexes "
            "(211 MiB to download, 967 MiB on disk) ...",
            "not from the configured indexes",
            f"Installing torch=={TORCH} from PyTorch's own index",
            f"{SLUG}: ready",
        )
        self.assertEqual(self.installed(), [(SLUG, "ready")])
        self.assertIn("/public/torch/", self.indexes.asked)
        again = self.scan()
        self.assert_said(again, f"use {SLUG}: it was installed before")

    def test_it_waits_for_a_database_that_others_hold(self) -> None:
        self.serve("public")
        impatient = 'DATABASES["default"]["OPTIONS"]["timeout"] = 0.1\n'
        with (self.folder / "own_settings.py").open("a") as own:
            own.write(impatient)
        loading = sqlite3.connect(self.site.database, isolation_level=None)
        loading.execute("BEGIN IMMEDIATE")
        with self.start() as process:
            assert process.stdout
            said = []
            for line in process.stdout:
                said.append(line)
                if "database is locked" in line and loading.in_transaction:
                    loading.execute("COMMIT")
        loading.close()
        self.assertEqual(process.returncode, 0, "".join(said))
        self.assertEqual(self.installed(), [(SLUG, "ready")])

    def test_the_setting_replaces_the_public_index(self) -> None:
        self.serve("public")
        self.serve("named")
        lines = self.scan(TORCH_INDEX_URL=f"{self.indexes.address}/named/")
        self.assert_said(lines, "from TORCH_INDEX_URL", f"{SLUG}: ready")
        self.assertFalse([path for path in self.indexes.asked if "/public" in path])

    def test_none_forbids_it_and_the_reason_is_said(self) -> None:
        self.serve("public")
        lines = self.scan(2, TORCH_INDEX_URL="none")
        self.assert_said(lines, "not from the configured indexes")
        self.assertFalse([path for path in self.indexes.asked if "/public" in path])
        self.assertEqual(self.installed(), [])

    def test_who_shut_pip_off_from_indexes_is_not_led_to_one(self) -> None:
        self.serve("public")
        self.scan(2, PIP_NO_INDEX="1")
        self.assertFalse([path for path in self.indexes.asked if "/public" in path])

    def test_the_active_environment_is_used_and_never_written_to(self) -> None:
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            with self.subTest(name):
                own = self.folder / name
                stand_in(own / "bin" / "python", f"9.{len(name)}.0+cpu")
                before = contents(own)
                lines = self.scan(**{name: str(own)})
                python = own / "bin" / "python"
                self.assert_said(
                    lines, f"ready ({python}, {name})", "none is installed"
                )
                self.assertEqual(contents(own), before)
        self.assertEqual(self.indexes.asked, [])

    def test_the_python_that_called_make_and_those_on_the_path(self) -> None:
        calling = stand_in(self.folder / "calling" / "python3", "9.8.0+cpu")
        stand_in(self.folder / "path" / "python3.99", "9.9.0+cpu")
        program(self.folder / "path" / "python3", "exit 1")
        program(self.folder / "path" / "python-config", "exit 0")
        lines = self.scan(CALLING_PYTHON=str(calling))
        self.assert_said(lines, "CALLING_PYTHON)", "python3.99, PATH)")
        found = [("9.8.0-cpu", "ready"), ("9.9.0-cpu", "ready")]
        self.assertEqual(self.installed(), found)

    def test_what_is_declared_comes_first(self) -> None:
        declared = stand_in(self.folder / "declared" / "python", "9.7.0+cpu")
        stand_in(self.folder / "path" / "python3", "9.9.0+cpu")
        lines = self.scan(BUILDS=shlex.quote(str(declared)))
        self.assert_said(lines, f"9.7.0-cpu: ready ({declared}, BUILDS)", "9.9.0-cpu")
        self.assertEqual(self.indexes.asked, [])

    def test_one_that_cannot_start_is_named_and_another_is_installed(self) -> None:
        self.serve("public")
        broken = stand_in(self.folder / "own" / "bin" / "python")
        package = broken.parent / "lib" / "torch" / "__init__.py"
        package.write_text("raise ImportError('libcudart.so: gone')")
        lines = self.scan(VIRTUAL_ENV=str(broken.parent.parent))
        self.assert_said(lines, f"not used: {broken} (VIRTUAL_ENV)", f"{SLUG}: ready")


class CandidatesTest(SimpleTestCase):
    def test_the_names_of_one_environment_are_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            real = program(Path(folder, "real", "python3.11"), "")
            for name in ("python", "python3"):
                (real.parent / name).symlink_to(real.name)
            made = Path(folder, "made", "bin")
            made.mkdir(parents=True)
            (made / "python").symlink_to(real)
            found = {
                candidates.environment_of(path)
                for path in candidates.on([str(real.parent), str(made)])
            }
        # An environment's Python is a link to another's, and yet another environment.
        self.assertEqual(len(found), 2)


class PinsTest(SimpleTestCase):
    def test_a_platform_with_another_wheel_has_a_table_of_its_own(self) -> None:
        for host, torch in (
            ("linux-x86_64", TORCH),
            ("linux-aarch64", TORCH),
            ("darwin-arm64", "2.13.0"),
        ):
            with self.subTest(host):
                pin = pins.default_build(host=host)
                self.assertEqual(pin.torch, torch)
                # Sizes stand only where somebody measured them.
                self.assertEqual(bool(pin.download_mib), host == "linux-x86_64")

    def test_the_index_is_data_and_a_setting_has_the_last_word(self) -> None:
        for value, index in (
            ("", pins.tables()["index"]["cpu"]),
            ("none", ""),
            ("NONE", ""),
            ("https://mirror/cpu", "https://mirror/cpu"),
        ):
            with self.subTest(value), override_settings(TORCH_INDEX_URL=value):
                self.assertEqual(pins.torch_index(), index)
