"""Bisections over releases that are not here: each is installed where it is asked."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

from django.test import TestCase, TransactionTestCase, override_settings

from runner.bisecting import queue, sentences
from runner.bisecting.span import SpanError
from runner.builds import index, install, venvs
from runner.builds.probe import BuildError
from runner.models import Bisection, Evidence, Installation
from runner.worker import bisecting, drain
from tests.runner.bisecting.test_bisections import BUILDS, BisectionCase, LookCase
from tests.runner.builds.test_install import stand_in_wheel
from tests.support import runs
from tests.support.package_index import PackageIndexes


@override_settings(INSTALL_RELEASES=True)
class InstallTest(LookCase, TestCase):
    """Releases that are not here, one by one, and only those that are asked."""

    def setUp(self) -> None:
        super().setUp()
        Installation.objects.all().delete()
        self.known("9.1.0-cpu", "bug_absent")
        self.known("9.8.0-cpu", "bug_present")
        releases = [slug.removesuffix("-cpu") for slug in BUILDS]
        self.enterContext(mock.patch.object(index, "releases", lambda: releases))
        self.enterContext(mock.patch.object(install, "add_release", self.add))
        self.added: list[str] = []

    def add(self, release: str, with_: list[str], progress: Any) -> Installation:
        """As pip would; 9.3.0 has no wheel."""
        self.added.append(release)
        if release == "9.3.0":
            raise BuildError("No matching distribution found")
        row = Installation.objects.filter(build=f"{release}-cpu").first()
        return row or runs.install(f"/{release}/python", slug=f"{release}-cpu")

    def test_what_is_not_here_is_installed_where_it_is_asked(self) -> None:
        self.submit(install=True)
        row = self.look()
        self.assertEqual(row.offered, [f"9.{at}.0" for at in range(2, 8)])
        self.assertEqual((self.added, self.asked()), (["9.5.0"], ["9.5.0-cpu"]))
        self.answer("bug_present")
        row = self.look()
        self.assertEqual(self.added, ["9.5.0", "9.3.0", "9.4.0"])
        self.assertEqual(row.steps[-1]["reason"], "No matching distribution found")
        self.answer("bug_absent")
        row = self.look()
        found = row.found
        self.assertEqual((found["before"], found["after"]), ("9.4.0-cpu", "9.5.0-cpu"))
        self.assertEqual(found["unknown"], [])
        self.assertEqual(len(self.added), 3)

    def test_killed_while_it_installs_another_goes_on(self) -> None:
        self.submit(install=True)
        lost = self.claim()
        bisecting.look_at_the_index(lost, self.repro)
        # Killed behind the installation and before its build was written down.
        queue.keep(lost, phase=f"{queue.INSTALLING}9.5.0")
        self.add("9.5.0", [], print)
        self.lapse()
        self.look()
        self.assertEqual(self.asked(), ["9.5.0-cpu"])
        self.assertEqual(Installation.objects.count(), 1)

    def test_only_where_the_site_allows_it(self) -> None:
        self.submit(install=True)
        with override_settings(INSTALL_RELEASES=False):
            self.assertIsNone(queue.claim("w1"))
        self.assertIsNotNone(queue.claim("w1"))

    def test_without_the_word_evidence_alone_answers(self) -> None:
        self.submit()
        row = self.look()
        self.assertEqual((row.found["before"], self.added), ("9.1.0-cpu", []))

    def test_an_end_may_be_a_release_that_only_the_index_knows(self) -> None:
        Installation.objects.all().delete()
        row = self.submit("9.2.0", "9.6.0", install=True)
        self.assertEqual(row.builds, [])
        self.assertIn("asks the index first", sentences.sentence(row)["en"])
        row = self.look()
        self.assertEqual(row.builds, [f"9.{at}.0" for at in range(2, 7)])
        self.assertEqual((row.first, self.added), ("good", ["9.2.0"]))
        for verdict in ("bug_absent", "bug_present", "bug_absent", "bug_present"):
            self.answer(verdict)
            row = self.look()
        self.assertEqual(self.added, ["9.2.0", "9.6.0", "9.4.0", "9.5.0"])
        said = sentences.sentence(row)["en"]
        self.assertEqual(said, "Last good 9.4.0, first bad 9.5.0.")

    def test_an_end_that_the_index_has_not_is_said(self) -> None:
        row = self.submit("9.1.0", "9.9.0", install=True)
        row = self.look()
        self.assertEqual((row.reason, self.added), ("no_ends", []))
        said = sentences.sentence(row)
        self.assertIn("9.9.0: neither a result", said["en"])
        self.assertIn("9.9.0", said["zh"])
        page = self.client.get(f"/en/bisections/{row.pk}/")
        self.assertContains(page, "9.9.0: neither a result")

    def test_an_unknown_end_takes_the_word_and_a_release(self) -> None:
        for ends, options in (
            (("9.1.0", "9.9.0"), {}),
            (("9.9.0", "9.9.0"), {"install": True}),
            (("9.1.0", "9.9.0-cu999"), {"install": True}),
            (("9.1.0", "9.9.0rc1"), {"install": True}),
            (("9.1.0", "nonsense"), {"install": True}),
        ):
            with self.subTest(ends, **options), self.assertRaises(SpanError):
                self.submit(*ends, **options)
        self.assertFalse(Bisection.objects.exists())


@override_settings(INSTALL_RELEASES=True)
class IndexTest(BisectionCase, TransactionTestCase):
    """From an index on the loopback, by pip or uv, to runs under what it installed."""

    def setUp(self) -> None:
        super().setUp()
        Installation.objects.all().delete()
        self.builds = self.folder / "builds"
        simple = self.folder / "index" / "simple"
        for slug in BUILDS:
            stand_in_wheel(simple / "torch", slug.replace("-", "+"))
        stand_in_wheel(simple / "torch", "9.4.1+cpu", "raise ImportError('broken')")
        stand_in_wheel(simple / "numpy", "2.4.6", "x = 1", name="numpy")
        server = self.enterContext(PackageIndexes(self.folder / "index"))
        self.enterContext(
            override_settings(BUILDS_DIR=self.builds, DATA_DIR=self.folder)
        )
        self.enterContext(mock.patch.dict(os.environ, server.alone("simple")))

    def test_what_is_asked_is_installed_and_run_and_nothing_else(self) -> None:
        self.submit("9.2.0", "9.7.0", install=True)
        drain.drain("w1")
        row = Bisection.objects.get()
        self.assertEqual((row.state, row.reason), ("finished", ""), row.steps)
        found = (row.found["before"], row.found["after"])
        self.assertEqual(found, ("9.4.0-cpu", "9.5.0-cpu"))
        here = sorted(path.parents[1].name for path in self.builds.glob("*/bin/python"))
        ran = [step["build"] for step in row.steps if step["how"] == "run"]
        self.assertEqual([f"{name}-cpu" for name in here], sorted(ran))
        self.assertEqual(row.installed, {name: f"{name}-cpu" for name in here})
        self.assertLess(len(here), 6)
        (broken,) = [step for step in row.steps if step["how"] == "nothing"]
        self.assertEqual((broken["build"], broken["answer"]), ("9.4.1", "unknown"))
        self.assertEqual(row.found["unknown"], ["9.4.1"])
        python = venvs.python_of(self.builds / "9.5.0")
        self.assertEqual(
            Installation.objects.get(build="9.5.0-cpu").interpreter, str(python)
        )
        self.assertEqual(
            set(ran), set(Evidence.objects.values_list("build", flat=True))
        )
