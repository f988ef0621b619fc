"""The export: the site's own bytes, whole or not at all, and a package that loads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings, tag
from packaging.version import Version

from kb.choices import LANGS
from kb.models import Record
from runner.takeaway import mirror
from tests.support import loaded

SITE = "https://kb.example"
LOAD = "import doesitnan_data, json; print(json.dumps(doesitnan_data.load()))"


@tag("any_database")
@override_settings(SITE_URL=SITE)
class MirrorTest(TestCase):
    folder: ClassVar[Path]

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()
        cls.folder = Path(cls.enterClassContext(TemporaryDirectory()), "mirror")
        cls.export()

    @classmethod
    def export(cls) -> None:
        call_command("export", cls.folder, verbosity=0, stdout=mock.Mock())

    def test_a_file_is_what_the_site_answers_at_its_address(self) -> None:
        addresses = [
            "osv/PyPI/all.zip",
            "osv/PyPI/modified_id.csv",
            "badge/NAN-0008/releases.svg",
        ]
        for address in addresses:
            served = self.client.get(f"/{address}").content
            self.assertEqual((self.folder / address).read_bytes(), served, address)
        chinese = self.client.get("/badge/NAN-0008/releases.svg?lang=zh").content
        made = self.folder / "zh/badge/NAN-0008/releases.svg"
        self.assertEqual(made.read_bytes(), chinese)
        entries = list(self.folder.glob("osv/PyPI/x_*.json"))
        self.assertGreater(len(entries), 10)
        for entry in entries:
            answered = self.client.get(f"/osv/v1/vulns/{entry.stem}").json()
            self.assertEqual(json.loads(entry.read_text()), answered)

    def test_the_data_is_that_of_the_api_also_in_the_package(self) -> None:
        data = json.loads((self.folder / mirror.DATA).read_text())
        by_id = {record["id"]: record for record in data["records"]}
        answered = self.client.get("/api/v1/records/NAN-0008").json()
        self.assertEqual(by_id["NAN-0008"], answered)
        matrix = {record["record"]: record for record in data["matrix"]}
        answered = self.client.get("/api/v1/records/NAN-0008/matrix").json()
        self.assertEqual(matrix["NAN-0008"], answered)
        self.assertEqual(set(by_id), set(matrix))
        self.assertIn("NAN-0007", {flip["record"] for flip in data["flips"]})
        (wheel,) = self.folder.glob("*.whl")
        self.assertEqual(str(Version(data["version"])), wheel.name.split("-")[1])
        python = [sys.executable, "-c", LOAD]
        told = subprocess.run(
            python, env={"PYTHONPATH": str(wheel)}, capture_output=True, check=True
        )
        self.assertEqual(json.loads(told.stdout), data)

    def test_each_link_of_the_pages_leads_somewhere(self) -> None:
        asked = set()
        for page in (self.folder / "index.html", self.folder / "zh/index.html"):
            links = re.findall(r'(?:href|src)="([^"]+)"', page.read_text())
            self.assertGreater(len(links), 200)
            for link in links:
                if link.startswith(SITE):
                    asked.add(link.removeprefix(SITE))
                else:
                    self.assertTrue((page.parent / link).is_file(), link)
        pages = {
            f"/{lang}/{row.pk}/{row.slug}/"
            for lang in LANGS
            for row in Record.objects.visible()
        }
        # Of records here a few: the crawls of tests.kb.pages.test_pages open them all.
        for path in [*(asked - pages), *sorted(asked & pages)[::50]]:
            self.assertEqual(self.client.get(path).status_code, 200, path)

    def test_a_link_that_leads_nowhere_leaves_the_old_files(self) -> None:
        before = (self.folder / mirror.DATA).stat().st_ino
        broken = {f"{SITE}/nowhere", "badge/NAN-0000/releases.svg"}
        page = "".join(f'<a href="{link}">' for link in broken)
        with (
            mock.patch.object(
                mirror, "files", lambda base: [("zh/index.html", page.encode())]
            ),
            self.assertRaises(CommandError) as caught,
        ):
            self.export()
        for link in broken:
            self.assertIn(link, str(caught.exception))
        self.assertEqual((self.folder / mirror.DATA).stat().st_ino, before)
        self.assertEqual(list(self.folder.parent.iterdir()), [self.folder])

    def test_a_folder_with_other_files_is_left_alone(self) -> None:
        other = Path(self.enterContext(TemporaryDirectory()))
        own = other / "thesis.tex"
        own.touch()
        with self.assertRaisesMessage(CommandError, "no export"):
            call_command("export", other)
        self.assertTrue(own.exists())


class NothingToExportTest(TestCase):
    def test_it_says_what_is_missing(self) -> None:
        with TemporaryDirectory() as folder:
            with self.assertRaisesMessage(CommandError, "SITE_URL"):
                call_command("export", folder)
            with (
                override_settings(SITE_URL=SITE),
                self.assertRaisesMessage(CommandError, "load_records"),
            ):
                call_command("export", folder)
