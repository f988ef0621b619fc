"""`builds add --newest`: what an index has and the site lacks, installed."""

from __future__ import annotations

import os
from io import StringIO
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings, tag

from runner.builds import index, install, venvs
from runner.models import Installation
from tests.runner.builds.test_builds import Folder
from tests.runner.builds.test_install import stand_in_wheel
from tests.support import runs
from tests.support.package_index import PackageIndexes


class LackingTest(TestCase):
    def test_a_release_is_new_where_nothing_later_of_its_series_is_known(self) -> None:
        for offered, known, new in (
            ("2.14.0 2.14.1 2.15.0", "2.13.0 2.14.1", "2.15.0"),
            ("2.13.0 2.13.1 2.14.1", "2.13.0 2.14.1", "2.13.1"),
            ("1.13.0 1.13.1 2.0.1", "2.0.1", ""),
            ("2.14.0 2.14.1 2.15.0", "2.13.0+cpu", "2.14.0 2.14.1 2.15.0"),
            ("2.14.0 2.15.0", "", "2.15.0"),
            ("2.14.0", "2.14.0a0", "2.14.0"),
            ("", "", ""),
        ):
            with self.subTest(offered, known=known):
                Installation.objects.all().delete()
                for raw in known.split():
                    slug = raw.replace("+", "-")
                    runs.make_build(slug, raw)
                    runs.install(f"/venv/{raw}/bin/python", slug)
                found = index.lacking(offered.split())
                self.assertEqual(found, new.split())


@tag("any_database")
class NewestTest(Folder, TestCase):
    """An index on the loopback, which has torches that only say who they are."""

    def setUp(self) -> None:
        super().setUp()
        self.builds, self.index = self.folder / "builds", self.folder / "index"
        stand_in_wheel(self.index / "simple" / "numpy", "2.4.6", "x = 1", name="numpy")
        server = self.enterContext(PackageIndexes(self.index))
        self.enterContext(
            override_settings(BUILDS_DIR=self.builds, DATA_DIR=self.folder)
        )
        self.enterContext(mock.patch.dict(os.environ, server.alone("simple")))
        runs.make_build("2.6.0-cpu", "2.6.0+cpu")
        runs.install("/usr/bin/python3", "2.6.0-cpu")

    def torch(self, version: str, code: str = "") -> None:
        stand_in_wheel(self.index / "simple" / "torch", f"{version}+cpu", code)

    def add_newest(self) -> str:
        """Most releases bring CUDA, so that they are asked for."""
        out = StringIO()
        self.addCleanup(out.close)
        try:
            call_command("builds", "add", "--newest", "--yes", stdout=out)
        finally:
            self.said = out.getvalue()
        return self.said

    def test_each_is_installed_once_and_the_next_command_named(self) -> None:
        self.torch("2.6.0")
        self.assertEqual(self.add_newest(), "New on the index: nothing.\n")
        self.torch("9.7.0")
        self.torch("9.8.0")
        said = self.add_newest()
        self.assertTrue(said.startswith("New on the index: 9.7.0, 9.8.0.\n"), said)
        slugs = "--build 9.7.0-cpu --build 9.8.0-cpu"
        self.assertTrue(said.endswith(f"Next: manage.py matrix {slugs}\n"), said)
        row = Installation.objects.get(build="9.7.0-cpu")
        self.assertEqual(row.interpreter, str(venvs.python_of(self.builds / "9.7.0")))
        self.assertEqual(self.add_newest(), "New on the index: nothing.\n")

    def test_one_that_does_not_install_keeps_none_of_the_others_out(self) -> None:
        self.torch("9.7.0", "raise ImportError('libcudart is missing')")
        self.torch("9.8.0")
        with self.assertRaisesMessage(CommandError, "libcudart is missing") as raised:
            self.add_newest()
        self.assertEqual(raised.exception.returncode, 2)
        self.assertIn("Next: manage.py matrix --build 9.8.0-cpu\n", self.said)
        self.assertFalse((self.builds / "9.7.0").exists())

    def test_without_yes_nothing_is_downloaded(self) -> None:
        self.torch("9.7.0")
        with self.assertRaisesMessage(CommandError, "Pass --yes"):
            call_command("builds", "add", "--newest", stdout=StringIO())
        self.assertFalse((self.builds / "9.7.0").exists())

    def test_without_room_or_beside_an_installation_it_says_so(self) -> None:
        self.torch("9.7.0")
        self.builds.mkdir()
        refused = self.assertRaisesMessage(CommandError, "is installing a build")
        with venvs.lock(self.builds / venvs.LOCK_NAME), refused:
            self.add_newest()
        refused = self.assertRaisesMessage(CommandError, "MiB are needed")
        with mock.patch.object(install, "RESERVE_MIB", 10**9), refused:
            self.add_newest()
        self.assertFalse((self.builds / "9.7.0").exists())

    def test_an_index_that_is_away_is_said(self) -> None:
        away = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
        refused = self.assertRaisesMessage(CommandError, "ERROR: ")
        with mock.patch.dict(os.environ, away), refused:
            self.add_newest()
