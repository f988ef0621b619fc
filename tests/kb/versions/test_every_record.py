"""The rule of "affected" over all records, builds and versions of packages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from unittest import mock

from django.test import TestCase, tag
from packaging.version import Version

from kb.environments.environment import Environment, family, parse_environment
from kb.findings import results
from kb.lookup.affecting import also_affecting
from kb.lookup.answer import affected_by
from kb.models import Finding, Record
from kb.releases import comparison, sides
from kb.releases.comparison import NOT_TESTED, compare
from kb.search.index.generation import current_generation
from kb.syndication.osv import queries
from kb.versions.affected import NONE, TESTED, Answer, answer_for
from kb.versions.devices import only_on
from kb.versions.order import tested_builds
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, UNKNOWN
from tests import TESTS
from tests.support import loaded

PAIRS = tomllib.loads((TESTS / "environments/affected.toml").read_text())["pair"]
CARD = "GPU 0: NVIDIA A100-SXM4-80GB"
HOPPER = "GPU 0: NVIDIA H100 80GB HBM3"
# By kind of a comparison: what the rule must not say of the two sides.
OPPOSITE = {
    "new": ("", NOT_AFFECTED),
    "likely_new": (AFFECTED, NOT_AFFECTED),
    "fixed": ("", AFFECTED),
    "likely_fixed": (NOT_AFFECTED, AFFECTED),
    "bad_on_both": (NOT_AFFECTED, NOT_AFFECTED),
    "good_on_both": (AFFECTED, AFFECTED),
}
# What pip freeze lists beside any torch: nothing that a record is about.
REST = """\
certifi==2025.1.31
filelock==3.17.0
fsspec==2025.2.0
idna==3.10
Jinja2==3.1.5
MarkupSafe==3.0.2
mpmath==1.3.0
networkx==3.4.2
numpy==2.2.3
packaging==24.2
PyYAML==6.0.2
requests==2.32.3
sympy==1.13.1
tqdm==4.67.1
typing_extensions==4.12.2
urllib3==2.3.0
"""


@tag("any_database", "long")
class EveryRecordTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()
        cls.records = list(Record.objects.visible().with_everything())
        rows = Finding.objects.values_list("build_raw", flat=True)
        cls.builds = sorted({*rows.distinct(), "2.14.0+cu128", "2.12.1+cpu"})

    def ask(self, record: Record, env: str, runs: bool = True) -> Answer:
        return asked(record, env, runs)

    def others(self, record: Record) -> set[str]:
        """The packages that the bug is in, without torch."""
        listed = [*record.affected, *record.fixes]
        return {family(entry["package"]) for entry in listed} - {"torch", "cudnn"}

    def fixed(self, record: Record) -> Iterator[str]:
        """Pins of what ends it: root fixes, and ranges that end in a release."""
        for fix in record.fixes:
            if fix["version"] and fix["kind"] == "root_fix":
                yield f"{fix['package']}=={fix['version']}"
        for entry in record.affected:
            ends = [event["fixed"] for event in entry["events"] if "fixed" in event]
            if ends and "fixed" in entry["events"][-1]:
                yield f"{entry['package']}=={ends[-1]}"

    def test_the_fixed_version_of_a_package_is_never_affected(self) -> None:
        seen = 0
        for record in self.records:
            for pin in self.fixed(record):
                package, _sign, version = pin.partition("==")
                later = f"{package}=={Version(version).major + 50}.0.0"
                for build in self.builds:
                    for one in (pin, later) if package != "torch" else ():
                        seen += 1
                        found = self.ask(record, f"torch=={build}\n{one}")
                        self.assertIsNot(found.is_affected, True, (record, build, one))
                if package == "torch":
                    found = self.ask(record, pin)
                    self.assertIsNot(found.is_affected, True, (record, pin))
        self.assertGreater(seen, 200)

    def test_a_package_that_is_not_installed_is_never_affected(self) -> None:
        seen = 0
        for record in self.records:
            packages = {family(entry["package"]) for entry in record.affected}
            if not packages or "torch" in packages:
                continue
            for build in self.builds:
                seen += 1
                found = self.ask(record, f"{REST}torch=={build}")
                self.assertEqual(found.answer, NOT_AFFECTED, (record, build))
                alone = self.ask(record, f"torch=={build}")
                self.assertIsNot(alone.is_affected, True, (record, build))
        self.assertGreater(seen, 100)

    def test_a_gpu_is_never_cleared_by_a_run_on_the_cpu(self) -> None:
        """What is not affected there is so without any run."""
        seen = 0
        for record in self.records:
            for build in self.builds:
                for env in (f"torch=={build}\n{CARD}", f"torch=={build}\n{HOPPER}"):
                    found = self.ask(record, env)
                    if found.answer == NOT_AFFECTED and "+cu" in build:
                        seen += 1
                        silent = self.ask(record, env, runs=False)
                        self.assertEqual(silent.answer, NOT_AFFECTED, (record, env))
                        self.assertNotEqual(found.basis, TESTED, (record, env))
        self.assertGreater(seen, 200)

    def test_what_an_article_names_as_affected_is_never_cleared(self) -> None:
        seen = 0
        for record in self.records:
            for entry in record.affected:
                for build in entry.get("builds", []):
                    if build["state"] != "affected":
                        continue
                    pin = f"{entry['package']}=={build['raw']}"
                    if "//" in build["raw"]:
                        pin = f"{entry['package']} @ {build['raw']}"
                    for rest in ("", HOPPER, "torch==2.11.0+cu130\n" + HOPPER):
                        both = "torch==" in rest and entry["package"] == "torch"
                        if not both:
                            seen += 1
                            found = self.ask(record, f"{pin}\n{rest}")
                            self.assertNotEqual(
                                found.answer, NOT_AFFECTED, (record, pin, rest)
                            )
        self.assertGreater(seen, 20)

    def test_a_bug_of_gpus_is_not_in_builds_without(self) -> None:
        seen = 0
        for record in self.records:
            bugs = [repro for repro in record.repros.all() if not repro.is_model]
            if not bugs or any(repro.device == "cpu" for repro in bugs):
                continue
            for raw in (*self.builds, "2.5.0+cpu", "2.13.0+cpu", "2.15.0+cpu"):
                if raw.endswith("+cpu"):
                    seen += 1
                    found = self.ask(record, f"torch=={raw}")
                    self.assertIsNot(found.is_affected, True, (record, raw))
        self.assertGreater(seen, 20)

    def test_no_version_decides_where_only_the_code_does(self) -> None:
        seen = 0
        for record in self.records:
            if record.upstream != "by_design" or record.affected:
                continue
            for run in record.findings.all():
                seen += 1
                found = self.ask(record, f"torch=={run.build_raw}")
                self.assertEqual((found.answer, found.basis), (UNKNOWN, NONE), record)
                self.assertIn("depends on your code", found.reasons[0]["en"])
        self.assertGreater(seen, 50)

    def test_a_run_decides_only_for_its_packages_and_its_device(self) -> None:
        for record in self.records:
            for run in record.findings.all():
                if not run.is_fresh_verdict or run.is_model:
                    continue
                packages = run.made_with.get("packages", {})
                env = f"torch=={run.build_raw}"
                found = self.ask(record, env)
                if packages and not self.plain(record, run.build_raw):
                    self.assertNotEqual(found.basis, TESTED, (record, env))
                if found.basis == TESTED:
                    self.assertIn(run.build_raw, found.reasons[0]["en"])
                    self.assertRegex(found.reasons[0]["en"], "on (CPU|NVIDIA)")

    def plain(self, record: Record, raw: str) -> bool:
        """Whether a repro without packages of its own ran on this build."""
        return any(
            row.build_raw == raw and not row.made_with.get("packages")
            for row in record.findings.all()
            if row.is_fresh_verdict and not row.is_model
        )

    def test_environments_as_people_have_them(self) -> None:
        records = {record.pk: record for record in self.records}
        for pair in PAIRS:
            with self.subTest(env=pair["env"], record=pair["record"], why=pair["why"]):
                found = self.ask(records[pair["record"]], pair["env"])
                self.assertEqual(found.answer, pair["answer"], found.reasons)
        unknown = [pair for pair in PAIRS if pair["answer"] == "unknown"]
        self.assertLessEqual(len(unknown) / len(PAIRS), 0.25)

    def test_counts_are_counts_of_builds(self) -> None:
        builds = set(Finding.objects.values_list("build", flat=True))
        for record in self.records:
            found = results.summary(record.findings.all())
            self.assertLessEqual(found["present"] + found["absent"], len(builds))
            for row in found["devices"]:
                self.assertLessEqual(row.total, len(builds), record)
            cells = results.cells(record.findings.all())
            keys = {(cell.repro, cell.build, cell.device_class) for cell in cells}
            self.assertEqual(len(keys), len(cells), record)

    def test_records_of_one_device_name_it(self) -> None:
        for record in self.records:
            holds = record.holds_on
            bugs = [repro for repro in record.repros.all() if not repro.is_model]
            if bugs and all(repro.device == "cuda" for repro in bugs):
                self.assertTrue(only_on(holds, "cuda"), record)

    def test_every_door_gives_the_same_answer(self) -> None:
        envs = [f"torch=={build}" for build in self.builds[::3]]
        envs += [f"torch==2.13.0+cpu\n{pin}" for pin in self.pins()]
        envs += [
            f"torch==2.11.0+cu130\n{CARD}",
            "torch==2.7.1\nGPU: Apple M2 Max",
            REST,
        ]
        for env in envs:
            parsed = parse_environment(env)
            at_once = also_affecting(parsed, set(), current_generation())
            self.assertEqual(at_once, self.by_rule(env), env)
        for env in envs[::3]:
            alone = [
                record.pk
                for record in self.records
                if affected_by(record, env)["affected"]["is_affected"]
            ]
            self.assertEqual(alone, self.by_rule(env), env)
        for build in self.builds:
            osv = set(queries.matching([queries.Asked("torch", build)])[0])
            wanted = set(self.by_rule(f"torch=={build}")) & queries.exported_ids()
            self.assertLessEqual(osv, wanted, build)

    def test_a_comparison_never_says_the_opposite(self) -> None:
        # The same rows of two sides whatever device and list are asked about.
        rows_on = cache(comparison.rows_on)
        self.enterContext(mock.patch.object(comparison, "rows_on", rows_on))
        tested = [sides.find(build.slug) for build in tested_builds()]
        listed = [None, *(parse_environment(pin) for pin in self.pins())]
        records = {record.pk: record for record in self.records}
        runs = {
            pk: list(filter(is_judged, r.findings.all())) for pk, r in records.items()
        }
        # The later side of a comparison is the earlier one of the next.
        known: dict[tuple[str, str], str] = {}
        seen = 0
        for before, after in pairwise([side for side in tested if side][::3]):
            for device, env in product(("", "cpu", "cuda"), listed):
                told = compare(before, after, device, env)
                envs = [(repr(one), one) for one in told.envs]
                changes = {(item.record, item.kind) for item in told.items()}
                for pk, kind in changes | set(told.kinds.items()):
                    for (text, asked_of), wrong in zip(
                        envs, OPPOSITE.get(kind, ()), strict=False
                    ):
                        seen += 1
                        if (pk, text) not in known:
                            found = answer_for(records[pk], asked_of, runs[pk])
                            known[pk, text] = found.answer
                        self.assertNotEqual(known[pk, text], wrong, (pk, kind, text))
        self.assertGreater(seen, 1000)

    def test_a_comparison_without_a_list_is_silent_on_runs_with_packages(self) -> None:
        found = filter(None, [sides.find(build.slug) for build in tested_builds()])
        told = [compare(side, side).kinds for side in found]
        for record in self.records:
            runs = [
                row
                for row in record.findings.all()
                if row.is_fresh_verdict and not row.is_model
            ]
            if runs and all(row.made_with.get("packages") for row in runs):
                for kinds in told:
                    self.assertEqual(kinds[record.pk], NOT_TESTED, record)

    def test_a_feed_tells_of_turns_with_the_same_packages(self) -> None:
        for record in self.records:
            for flip in results.flips(results.cells(record.findings.all())):
                packages = [
                    side.made_with.get("packages") for side in (flip.before, flip.after)
                ]
                self.assertEqual(*packages, record)

    def by_rule(self, env: str) -> list[str]:
        return [row.pk for row in self.records if self.ask(row, env).is_affected]

    def pins(self) -> list[str]:
        made = [row.made_with.get("packages", {}) for row in Finding.objects.all()]
        pins = {
            "\n".join(f"{name}=={version}" for name, version in packages.items())
            for packages in made
        }
        return sorted(pins - {""})


def is_judged(row: Finding) -> bool:
    return row.is_fresh_verdict and not row.is_model


@cache
def environment(text: str) -> Environment:
    return parse_environment(text)


def asked(record: Record, env: str, runs: bool) -> Answer:
    findings = record.findings.all() if runs else ()
    return answer_for(record, environment(env), findings)
