"""deploy/ starts the site as the Procfile does; the backup of the docs is one."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.test import SimpleTestCase

ROOT = Path(settings.BASE_DIR)
DEPLOY = ROOT / "deploy"
# Where the units expect the clone.
HOME = "/opt/doesitnan"
# Of systemd's and compose's own, or of the commands.
OTHERS = {"PYTHONUNBUFFERED"}


def known_settings() -> set[str]:
    source = (ROOT / "config" / "settings.py").read_text()
    return set(re.findall(r'env_[a-z]+\(\s*"([A-Z_]+)"', source)) | {"DATA_DIR"}


def procfile() -> dict[str, str]:
    lines = (DEPLOY / "Procfile").read_text().splitlines()
    rows = (line.split(": ", 1) for line in lines if not line.startswith("#"))
    return dict(rows)  # type: ignore[arg-type]  # pairs


class UnitsTest(SimpleTestCase):
    def test_systemd_takes_them(self) -> None:
        program = shutil.which("systemd-analyze")
        if program is None:
            self.skipTest("no systemd-analyze here")
        with tempfile.TemporaryDirectory() as folder:
            for unit in (DEPLOY / "systemd").iterdir():
                here = Path(folder, unit.name)
                here.write_text(unit.read_text().replace(HOME, str(ROOT)))
                done = subprocess.run(
                    [program, "verify", str(here)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""), unit.name)

    def test_they_start_what_the_procfile_starts(self) -> None:
        web = (DEPLOY / "systemd" / "doesitnan-web.service").read_text()
        gunicorn = procfile()["web"].partition(" --bind")[0]
        self.assertIn(f"ExecStart={HOME}/{gunicorn} ", web)
        for unit in (DEPLOY / "systemd").iterdir():
            told = re.findall(r"^Environment=(.*)$", unit.read_text(), re.M)
            names = set(re.findall(r"(\w+)=", " ".join(told)))
            self.assertEqual(names - known_settings(), set(), unit.name)


class ContainersTest(SimpleTestCase):
    def setUp(self) -> None:
        composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        self.services: dict[str, Any] = composed["services"]

    def said(self, name: str) -> str:
        return " ".join(self.services[name]["command"])

    def test_they_start_what_the_procfile_starts(self) -> None:
        wanted = procfile()
        self.assertEqual(self.said("release"), f"sh -c {wanted['release']}")
        self.assertEqual(
            self.said("web").partition(" --bind")[0],
            wanted["web"].partition(" --bind")[0],
        )
        self.assertIn(
            wanted["worker"].partition(" --concurrency")[0], self.said("worker")
        )

    def test_their_settings_are_read(self) -> None:
        for name in ("release", "web", "worker"):
            told = set(self.services[name]["environment"])
            self.assertGreater(len(told), 4)
            self.assertEqual(told - known_settings(), set(), name)

    def test_what_they_mount_and_build_is_there(self) -> None:
        build = self.services["web"]["build"]
        self.assertTrue((DEPLOY / build["context"] / build["dockerfile"]).exists())
        mounted = self.services["proxy"]["volumes"][0].split(":")[0]
        self.assertTrue((DEPLOY / mounted).exists())

    def test_the_image_is_made_from_the_lock_that_a_clone_uses(self) -> None:
        text = (DEPLOY / "Containerfile").read_text()
        self.assertIn("--require-hashes -r requirements.txt", text)
        names = set(
            re.findall(r"([A-Z_]+)=", text.partition("\nENV ")[2].split("\n")[0])
        )
        self.assertEqual(names - known_settings() - OTHERS, set())
        self.assertIn("DATA_DIR", names)


class BackupTest(SimpleTestCase):
    def setUp(self) -> None:
        self.home = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.checkout = self.home / "checkout"
        (self.checkout / "var").mkdir(parents=True)
        (self.checkout / "var" / "secret_key").write_text("a secret")
        text = (ROOT / "docs" / "operate.md").read_text()
        section = text.partition("**SQLite.**")[2].partition("**PostgreSQL.**")[0]
        self.blocks = re.findall(r"(?s)```sh\n(.+?)```", section)

    def run_blocks(self) -> None:
        """In one shell of somebody whose files others may read."""
        subprocess.run(
            ["bash", "-euc", "umask 022\n" + "\n".join(self.blocks)],
            cwd=self.checkout,
            env={**os.environ, "HOME": str(self.home)},
            check=True,
        )

    def test_only_its_owner_may_read_it_and_it_is_not_in_the_checkout(self) -> None:
        path = self.checkout / "var" / "db.sqlite3"
        database = sqlite3.connect(path)
        self.addCleanup(database.close)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE kept (word TEXT)")
        database.execute("INSERT INTO kept VALUES ('not lost')")
        database.commit()
        self.run_blocks()
        (backup,) = (self.home / "doesitnan-backup").iterdir()
        self.assertEqual(backup.stat().st_mode & 0o777, 0o700)
        modes = {file.name: file.stat().st_mode & 0o077 for file in backup.iterdir()}
        self.assertEqual(modes["db.sqlite3"], 0)
        self.assertIn("secret_key", modes)
        self.assertEqual([at.name for at in self.checkout.iterdir()], ["var"])
        restored = sqlite3.connect(path)
        self.addCleanup(restored.close)
        rows = restored.execute("SELECT word FROM kept").fetchall()
        self.assertEqual(rows, [("not lost",)])
