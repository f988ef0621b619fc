"""Every repro of every record, executed on real torch, against what was recorded.

Here one of each kind; the rest, warm, in `EveryOtherTest` by `make test-all`, without
those that compile or start processes of their own: 29 of 206 take four fifths of the
time. All of them warm and cold by `make gauntlet`. In a parallel run each class has a
pool.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import addModuleCleanup, mock

from django.conf import settings
from django.test import SimpleTestCase, override_settings, tag

from kb.records.laws import FOLDER, columns_of, read_laws
from portable import harness
from runner.pool import client
from runner.pool.keeper import PoolKeeper
from runner.worker import execution
from tests.support.builds import torch_python
from tests.support.repro_sources import without_refuted, without_variants
from tests.support.sites import wait_for

ISSUES = Path(settings.ISSUES_DIR)
LAWS = ISSUES.parent / FOLDER
# Every repro was run on it; elsewhere only some.
DEFAULT = "2.13.0-cpu"
SAME = ("verdict", "reason", "hits", "workarounds", "refuted")


def shipped() -> dict[tuple[str, str], Path]:
    """(record, repro) -> its file."""
    found = {}
    for path in sorted(ISSUES.glob("*/repro*.py")):
        header, _ = harness.read_repro(path.read_text())
        found[str(header.record), path.stem] = path
    return found


SHIPPED = shipped()


@contextmanager
def serving(*, warm: bool) -> Any:
    """Runs of this module start warm, or all of them cold."""
    pool = str(Path(DATA, "pool.sock" if warm else "no pool"))
    with (
        override_settings(DATA_DIR=Path(DATA)),
        mock.patch.object(execution, "pool_socket", lambda: pool),
    ):
        yield


def run(source: str, record: str, name: str = "repro") -> dict[str, Any]:
    """The evidence of a source under the build of the tests, as the site makes it."""
    job = execution.Job(source, name, record)
    quiet = execution.Listeners(phase=lambda phase, text: None)
    return execution.run_now(job, torch_python(), quiet, on_cpu=True)


def run_shipped(which: tuple[str, str]) -> dict[str, Any]:
    return run(SHIPPED[which].read_text(), *which)


# What the runs of this module keep, and the socket of their pool.
DATA = ""


def setUpModule() -> None:
    global DATA
    DATA = tempfile.mkdtemp(prefix="doesitnan-test-")
    addModuleCleanup(shutil.rmtree, DATA)
    keeper = PoolKeeper(str(Path(DATA, "pool.sock")), 2048)
    addModuleCleanup(keeper.stop)
    keeper.ensure()
    wait_for(lambda: client.is_there(keeper.path), "the pool listens")


class Comparing(SimpleTestCase):
    """What holds for each repro that is shipped."""

    def compare(self, which: tuple[str, str], cold: Any, warm: Any) -> None:
        self.assertEqual({check["served"] for check in cold["checks"]}, {"cold"})
        self.same_when_warm(SHIPPED[which].read_text(), cold, warm)
        self.same_as_recorded(which, cold)

    def same_as_recorded(self, which: tuple[str, str], found: Any) -> None:
        if (found["verdict"], found["reason"]) == ("not_applicable", "compiler"):
            self.skipTest(found["checks"][0]["log"]["text"].strip().splitlines()[-1])
        if found["repro"]["fidelity"] == "mechanism_model":
            self.assertIsNone(found["is_affected"])
        name = f"{which[1]}-{found['build']['slug']}.json"
        kept = SHIPPED[which].parent / "evidence" / name
        recorded = json.loads(kept.read_text()) if kept.exists() else {"reason": None}
        lacks = str(found["reason"]).startswith(("device", "stack:"))
        if lacks and recorded["reason"] is None:
            return  # Recorded where there is what is missing here, or nowhere yet.
        # Another build than the usual one may have none.
        if found["build"]["slug"] == DEFAULT or kept.exists():
            self.assertEqual(*({k: e.get(k) for k in SAME} for e in (found, recorded)))

    def same_when_warm(self, source: str, cold: Any, warm: Any) -> None:
        """Verdict and outcomes do not depend on where torch was imported."""
        header, _ = harness.read_repro(source)
        for check in warm["checks"]:
            # What must be set before the import always starts cold.
            alone = harness.check_spec(header, check["name"]).env
            self.assertEqual(check["served"], "cold" if alone else "warm", check)
        for key in (*SAME, "trials", "build", "device"):
            self.assertEqual(warm[key], cold[key], key)
        self.assertEqual(outcomes(warm), outcomes(cold))


def outcomes(evidence: Any) -> list[Any]:
    keys = ("name", "trial", "outcome", "reason")
    return [[check[key] for key in keys] for check in evidence["checks"]]


class ShippedRepro(Comparing):
    """Each repro named here is executed cold and warm."""

    def shows(self, record: str, name: str = "repro") -> None:
        which = record, name
        self.assertIn(which, ALONE)
        with serving(warm=False):
            cold = run_shipped(which)
        with serving(warm=True):
            warm = run_shipped(which)
        self.compare(which, cold, warm)


# What makes a check dear; one that joins processes is run all the same.
DEAR = {"compiler", "loopback"}
JOINED = ("NAN-0149", "repro")
# Those that have a test of their own.
ALONE = {
    ("NAN-0001", "repro"),
    ("NAN-0004", "repro"),
    ("NAN-0005", "repro_model"),
    ("NAN-0007", "repro"),
    ("NAN-0009", "repro"),
}


@tag("long")
class KindsTest(ShippedRepro):
    """One of each kind."""

    def test_for_a_device_that_is_not_here(self) -> None:
        self.shows("NAN-0001")

    def test_for_packages_that_are_not_here(self) -> None:
        self.shows("NAN-0004")

    def test_a_model_of_the_mechanism(self) -> None:
        self.shows("NAN-0005", "repro_model")

    def test_a_bug_that_this_build_has_not(self) -> None:
        self.shows("NAN-0009")

    @tag("servers", "corpus")  # for its length: two minutes of processor time
    def test_with_a_compiler(self) -> None:
        self.shows("NAN-0007")


class EveryOtherTest(Comparing):
    # Minutes on every core: with the long ones, not before a commit.
    @tag("servers", "corpus")
    def test_they_show_what_was_recorded(self) -> None:
        rest = [which for which in SHIPPED if which not in ALONE and is_quick(which)]
        self.assertGreater(len(rest), 150)
        with serving(warm=True):
            found = run_all(rest)
        for which, one in zip(rest, found, strict=True):
            with self.subTest(which):
                self.same_as_recorded(which, one)

    @tag("gauntlet")  # half an hour: not in CI
    def test_they_do_so_warm_and_cold(self) -> None:
        with serving(warm=False):
            cold = run_all(SHIPPED)
        with serving(warm=True):
            warm = run_all(SHIPPED)
        for which, *both in zip(SHIPPED, cold, warm, strict=True):
            with self.subTest(which):
                self.compare(which, *both)


@tag("long")
class LawsTest(SimpleTestCase):
    """The repro of each law, and what its page says from the run that is kept."""

    def test_they_show_what_was_recorded(self) -> None:
        kept = {law.facts["slug"]: law for law in read_laws(ISSUES) or []}
        sources = {slug: (LAWS / slug / "repro.py").read_text() for slug in kept}
        self.assertGreater(len(sources), 10)
        with serving(warm=True), ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            ran = threads.map(lambda source: run(source, ""), sources.values())
            found = dict(zip(sources, ran, strict=True))
        for slug, one in found.items():
            with self.subTest(slug):
                path = Path(DATA, f"{slug}.json")
                path.write_text(harness.dumps(one))
                law = kept[slug]
                columns = columns_of(law.facts, sources[slug], [path])
                self.assertEqual(columns, {**law.columns, "torch": columns["torch"]})


def is_quick(which: tuple[str, str]) -> bool:
    header, _ = harness.read_repro(SHIPPED[which].read_text())
    return which == JOINED or DEAR.isdisjoint(header.needs)


def run_all(many: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return list(threads.map(run_shipped, many))


def without_extras(which: tuple[str, str]) -> str:
    return without_refuted(without_variants(SHIPPED[which].read_text()))


def mutated(which: tuple[str, str], check: str, body: str) -> dict[str, Any]:
    """Evidence with the body of each check whose name begins so replaced."""
    source = without_extras(which)
    names = re.findall(rf"^def ({check}\w*)\(", source, re.MULTILINE)
    assert names, (which, check)
    for name in names:
        source = source.replace(f"\ndef {name}(", f"\ndef replaced_{name}(")
        source += f"\n\ndef {name}():\n    {body}\n"
    with serving(warm=True):
        return run(source, *which)


@tag("gauntlet")
class EveryMutationTest(SimpleTestCase):
    """A repro that no longer shows anything must not look as if it did.

    Here each that comes to a verdict under this build; one in `test_harness` and, with
    a real torch, by `check_record`.
    """

    def mutated(self, check: str, body: str) -> Any:
        """(repro, evidence) of each that can run here."""
        recorded = {
            which: path.parent / "evidence" / f"{which[1]}-{DEFAULT}.json"
            for which, path in SHIPPED.items()
            if f"\ndef {check}" in path.read_text()
        }
        judged = [
            which
            for which, path in recorded.items()
            if path.exists() and json.loads(path.read_text())["hits"] is not None
        ]
        self.assertGreater(len(judged), 40)
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            found = threads.map(lambda which: mutated(which, check, body), judged)
            pairs = list(zip(judged, found, strict=True))
        # Recorded where there are packages that the build here has not.
        return [p for p in pairs if not str(p[1]["reason"]).startswith("stack:")]

    def test_an_emptied_workaround_is_not_verified(self) -> None:
        for which, found in self.mutated("workaround_", "return {}"):
            with self.subTest(which):
                self.assertEqual(set(found["workarounds"].values()), {"untested"})

    def test_a_trigger_that_is_the_control_shows_no_bug(self) -> None:
        for which, found in self.mutated("trigger", "return control()"):
            with self.subTest(which):
                self.assertEqual(found["verdict"], "bug_absent")

    def test_a_detector_that_is_the_control_leaves_no_verdict(self) -> None:
        for which, found in self.mutated("detector", "return control()"):
            with self.subTest(which):
                self.assertEqual(found["reason"], "detector_silent")
