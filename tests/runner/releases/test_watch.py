"""Watching an index: what counts as new, each step, and going on after a kill."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from io import StringIO
from pathlib import Path
from unittest import mock

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone, translation
from packaging.version import Version

from runner.builds import registry, venvs
from runner.builds.probe import BuildError
from runner.models import Lease, WatchedRelease
from runner.releases import offered
from runner.releases.alone import LOCK_NAME, NAME, alone
from runner.releases.watcher import Watcher
from tests.kb.releases.test_comparison import ComparisonCase
from tests.runner.builds.test_builds import Folder
from tests.runner.builds.test_install import stand_in_wheel
from tests.support import runs
from tests.support.package_index import PackageIndexes

State = WatchedRelease.State


def versions(text: str) -> list[Version]:
    return [Version(word) for word in text.split()]


class NewTest(SimpleTestCase):
    def test_a_release_is_new_where_nothing_later_of_its_series_is_known(self) -> None:
        for index, known, new in (
            ("2.14.0 2.14.1 2.15.0", "2.13.0 2.14.1", "2.15.0"),
            ("2.13.0 2.13.1 2.14.1", "2.13.0 2.14.1", "2.13.1"),
            ("1.13.0 1.13.1 2.0.1", "2.0.1", ""),
            ("2.14.0 2.14.1 2.15.0", "2.13.0", "2.14.0 2.14.1 2.15.0"),
            ("2.14.0 2.15.0", "", "2.15.0"),
            ("2.14.0", "2.14.0a0", "2.14.0"),
            ("2.15.0 2.16.0.dev1 2.16.0.dev2", "2.15.0", "2.16.0.dev2"),
            ("2.15.0 2.16.0.dev1", "2.15.0 2.16.0.dev1", ""),
            ("2.15.0rc1 2.15.0", "2.14.1", "2.15.0"),
        ):
            with self.subTest(index, known=known):
                found = offered.new_among(versions(index), set(versions(known)))
                self.assertEqual(found, versions(new))


class WatchCase(Folder, ComparisonCase):
    """An index on the loopback, which has a torch that only says who it is."""

    def setUp(self) -> None:
        Folder.setUp(self)
        ComparisonCase.setUp(self)
        self.builds = self.folder / "builds"
        self.index = self.folder / "index"
        self.torch("2.6.0")
        stand_in_wheel(self.index / "simple" / "numpy", "2.4.6", "x = 1", name="numpy")
        server = self.enterContext(PackageIndexes(self.index))
        self.enterContext(
            override_settings(BUILDS_DIR=self.builds, DATA_DIR=self.folder)
        )
        self.enterContext(mock.patch.dict(os.environ, server.alone("simple")))
        self.verdicts(0, v2_5_1=True, v2_6_0=True)
        runs.make_build("2.6.0-cpu", "2.6.0+cpu")
        runs.install("/usr/bin/python3", "2.6.0-cpu")
        self.filled: list[str] = []

    def torch(self, version: str, code: str = "") -> None:
        stand_in_wheel(self.index / "simple" / "torch", f"{version}+cpu", code)

    def fill(self, slug: str) -> None:
        """Stands for the workers: the bug of the first record is gone since 9.7."""
        self.filled.append(slug)
        verdicts = {
            "v" + one.removesuffix("-cpu").replace(".", "_"): False
            for one in self.filled
        }
        self.verdicts(0, v2_5_1=True, v2_6_0=True, **verdicts)

    def look(self, **options: int) -> str:
        self.lines.clear()
        watcher = Watcher(say=self.lines.append, fill=self.fill, **options)
        with translation.override("en"):
            watcher.look()
        return "\n".join(self.lines)

    def state(self, version: str) -> str:
        return WatchedRelease.objects.get(version=version).state


class JourneyTest(WatchCase):
    def test_a_new_release_is_installed_run_told_and_not_done_twice(self) -> None:
        self.torch("9.7.0")
        self.torch("9.7.1", "raise ImportError('libcudart is missing')")
        said = self.look()
        self.assertIn(
            "The index has 3 releases of torch; new here: 9.7.0, 9.7.1.", said
        )
        self.assertRegex(said, r"torch 9\.7\.0: 2 wheels, \d+ MiB.* MiB are free\.")
        self.assertIn("torch 9.7.0 as 9.7.0-cpu: 1 verdict turned.", said)
        self.assertIn("NAN-9001: first good in 9.7.0-cpu, bad in 2.6.0-cpu.", said)
        self.assertEqual(self.filled, ["9.7.0-cpu"])
        row = WatchedRelease.objects.get(version="9.7.0")
        self.assertEqual((row.state, row.build_id), (State.RAN, "9.7.0-cpu"))
        self.assertTrue((self.builds / "9.7.0" / "bin" / "python").exists())
        # The other one is shown with its last lines, and is not left on disk.
        self.assertEqual(self.state("9.7.1"), State.FAILED)
        self.assertFalse((self.builds / "9.7.1").exists())
        listed = StringIO()
        call_command("builds", "list", stdout=listed)
        self.assertIn("torch 9.7.1: does not install", listed.getvalue())
        self.assertRegex(listed.getvalue(), r"    \| .*libcudart is missing")
        page = self.client.get("/en/builds/").content.decode()
        self.assertIn("libcudart is missing", page)
        again = self.look()
        self.assertEqual(again, "The index has 3 releases of torch; nothing new.")
        self.assertEqual(self.filled, ["9.7.0-cpu"])

    def test_after_a_kill_it_goes_on_with_the_step_under_way(self) -> None:
        self.torch("9.7.0")
        with mock.patch.object(Watcher, "note", side_effect=SystemExit):
            self.assertRaises(SystemExit, self.look)  # installed, not written down
        self.assertEqual(self.state("9.7.0"), State.FOUND)
        with mock.patch.object(self, "fill", side_effect=SystemExit):
            self.assertRaises(SystemExit, self.look)
        self.assertIn("9.7.0 is installed already", "\n".join(self.lines))
        self.assertEqual(self.state("9.7.0"), State.INSTALLED)
        said = self.look()
        self.assertNotIn("wheels", said)
        self.assertEqual(self.filled, ["9.7.0-cpu"])
        self.assertEqual(self.state("9.7.0"), State.RAN)

    def test_without_room_or_beside_an_installation_it_waits(self) -> None:
        self.torch("9.7.0")
        full = shutil.disk_usage("/")._replace(free=0)
        with mock.patch.object(shutil, "disk_usage", return_value=full):
            said = self.look()
        self.assertIn("torch 9.7.0 waits:", said)
        self.assertIn("has 0 MiB free", said)
        with venvs.lock(self.builds / venvs.LOCK_NAME):
            self.assertIn("torch 9.7.0 waits: process", self.look())
        self.assertEqual(self.state("9.7.0"), State.FOUND)
        self.assertFalse((self.builds / "9.7.0").exists())

    def test_a_price_list_changes_nothing(self) -> None:
        self.torch("9.7.0")
        out = StringIO()
        call_command("watch", "--dry-run", stdout=out)
        self.assertIn("torch 9.7.0: 2 wheels", out.getvalue())
        self.assertFalse(WatchedRelease.objects.exists())
        self.assertEqual(list(self.builds.glob("*/")), [])


class KeepTest(WatchCase):
    def ran(self, version: str) -> Path:
        """A release that was installed and run here."""
        slug = f"{version}-cpu"
        python = venvs.python_of(self.builds / version)
        python.parent.mkdir(parents=True)
        python.touch()
        installation = runs.install(python, slug)
        installation.managed = True
        installation.save()
        WatchedRelease.objects.create(
            package="torch",
            version=version,
            state=State.RAN,
            host=registry.host_name(),
            interpreter=str(python),
            build_id=slug,
        )
        return python

    def test_the_newest_stay_and_what_is_needed(self) -> None:
        pythons = [self.ran(f"2.{minor}.0") for minor in (8, 9, 10)]
        run = runs.make_run(build=runs.make_build("2.9.0-cpu"))
        watcher = Watcher(say=self.lines.append, fill=self.fill, keep=1)
        watcher.remove_older()
        self.assertEqual([path.exists() for path in pythons], [False, True, True])
        self.assertIn("torch 2.9.0 stays: runs wait for it.", self.lines)
        run.delete()
        watcher.remove_older()
        self.assertEqual([path.exists() for path in pythons], [False, False, True])
        self.assertEqual(self.state("2.9.0"), State.REMOVED)

    def test_one_that_failed_is_tried_again_after_a_day(self) -> None:
        watcher = Watcher(say=self.lines.append, fill=self.fill)
        row = WatchedRelease.objects.create(
            package="torch", version="9.7.0", state=State.FAILED
        )
        self.assertEqual(watcher.waiting(), [])
        past = timezone.now() - timedelta(days=2)
        WatchedRelease.objects.update(changed_at=past)
        self.assertEqual(watcher.waiting(), [row])

    def test_an_index_that_is_away_is_said(self) -> None:
        watcher = Watcher(
            say=self.lines.append, fill=self.fill, index="http://127.0.0.1:9/simple"
        )
        watcher.look()
        self.assertIn("torch: ERROR: ", self.lines[0])


class AloneTest(Folder, TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(
            override_settings(BUILDS_DIR=self.folder, DATA_DIR=self.folder)
        )

    def test_two_never_watch_at_once(self) -> None:
        refused = "watches already"
        with alone(), self.assertRaisesMessage(BuildError, refused), alone():
            self.fail("both had it")
        lock = venvs.lock(self.folder / LOCK_NAME)
        with lock, self.assertRaisesMessage(CommandError, refused):
            call_command("watch", "--once")

    def test_another_host_waits_for_the_lease_and_a_killed_one_lapses(self) -> None:
        hour = timedelta(hours=1)
        self.assertTrue(Lease.take(NAME, "other:/builds", hour))
        with self.assertRaisesMessage(BuildError, "other:/builds watches"), alone():
            self.fail("both had it")
        Lease.objects.update(until=timezone.now() - hour)
        with alone():
            self.assertFalse(Lease.take(NAME, "other:/builds", hour))
        self.assertTrue(Lease.take(NAME, "other:/builds", hour))
