"""What stands in deploy/ starts the site as the Procfile does."""

from __future__ import annotations

import re
import shutil
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
