"""What runs show of a workaround: by its check, or by what a release did itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from django.test import TestCase, tag

from kb.findings import remedies
from kb.models import Finding, Record
from tests.support import loaded, runs
from tests.support.findings import stored

BELOW, ABOVE = ("2.8.0", "2.9.1"), ("2.10.0", "2.11.0")


class RemedyTest(TestCase):
    def setUp(self) -> None:
        self.record = runs.make_record("NAN-9009")
        self.record.fixes = [{"kind": "root_fix", "package": "torch", "version": "2.1"}]
        self.record.workarounds = [entry("raise", "upgrade")]

    def saw(self, raw: str, verdict: str, **columns: Any) -> Finding:
        evidence = f"sha256:{raw}"
        return stored(self.record, f"{raw}+cpu", verdict, evidence=evidence, **columns)

    def remedy(self) -> remedies.Remedy:
        (found,) = remedies.of_record(self.record, list(self.record.findings.all()))
        return found

    def saw_both(self) -> None:
        for raw in BELOW:
            self.saw(raw, "bug_present")
        for raw in ABOVE:
            self.saw(raw, "bug_absent")

    def test_an_upgrade_is_verified_by_the_builds_above_the_bug(self) -> None:
        self.saw_both()
        found = self.remedy()
        self.assertEqual(found.status, "verified")
        self.assertEqual([cell.build_raw for cell in found.seen_on], plus(ABOVE))
        self.assertEqual(found.evidence, "sha256:2.10.0")
        self.assertEqual(found.not_executed, "")

    def test_not_where_the_bug_comes_back(self) -> None:
        self.saw_both()
        self.saw("2.12.1", "bug_present")
        self.assertEqual(self.remedy().seen_on, [])

    def test_not_without_a_build_that_has_the_bug(self) -> None:
        for raw in ABOVE:
            self.saw(raw, "bug_absent")
        self.assertEqual(self.remedy().not_executed, "release")

    def test_not_by_a_model_nor_where_no_torch_mended_it(self) -> None:
        self.saw_both()
        self.record.fixes[0]["package"] = "transformers"
        self.assertEqual(self.remedy().seen_on, [])
        self.record.fixes[0]["package"] = "torch"
        Finding.objects.update(fidelity="mechanism_model")
        self.assertEqual(self.remedy().seen_on, [])

    def test_why_nothing_ran_it(self) -> None:
        for kind, reason in (
            *(("downgrade", "release"), ("upgrade", "release"), ("config", "setting")),
            *(("code", ""), ("env", "")),
        ):
            self.record.workarounds = [entry("raise", kind)]
            self.assertEqual(self.remedy().not_executed, reason, kind)
        repro = self.record.repros.create(
            name="repro",
            source="",
            digest="sha256:1",
            fidelity="mechanism_model",
            device="cpu",
            checks=["workaround_raise"],
        )
        self.assertEqual(self.remedy().not_executed, "model")
        repro.fidelity = "upstream_bug"
        repro.save()
        self.record.workarounds = [entry("raise", "config")]
        self.assertEqual(self.remedy().not_executed, "")

    def test_what_only_a_gpu_can_run_was_not_executed_without_one(self) -> None:
        self.record.workarounds = [entry("raise", "code")]
        columns = {"source": "", "fidelity": "upstream_bug"}
        columns |= {"checks": ["workaround_raise"]}
        self.record.repros.create(
            name="repro", digest="sha256:1", device="cuda", **columns
        )
        self.assertEqual(self.remedy().not_executed, "gpu")
        self.saw("2.10.0", "bug_present")  # by another repro of the record
        self.assertEqual(self.remedy().not_executed, "gpu")
        self.saw("2.11.0", "bug_absent", device_class="cuda")
        self.assertEqual(self.remedy().not_executed, "")
        Finding.objects.all().delete()
        self.record.repros.create(
            name="repro_2", digest="sha256:2", device="cpu", **columns
        )
        self.assertEqual(self.remedy().not_executed, "")

    def test_what_was_tried_and_shows_nothing_says_so(self) -> None:
        self.record.workarounds = [entry("raise", "code")]
        self.record.repros.create(
            **{"name": "repro", "source": "", "digest": "sha256:1", "device": "cuda"},
            **{"fidelity": "upstream_bug", "checks": ["workaround_raise"]},
        )
        tried = {"device_class": "cuda", "check_name": "workaround_raise"}
        self.saw("2.9.1", "bug_absent", stale=True, **tried)
        self.assertNotEqual(self.remedy().not_executed, "bug_unseen")
        self.saw("2.10.0", "bug_absent", **tried)
        self.assertEqual(self.remedy().not_executed, "bug_unseen")
        self.saw("2.11.0", "bug_present", outcome="error", **tried)
        self.assertEqual(self.remedy().not_executed, "no_result")
        self.saw("2.12.1", "bug_present", outcome="clean", **tried)
        self.assertEqual(self.remedy().status, "verified")
        self.assertEqual(self.remedy().not_executed, "")

    def test_the_first_that_was_verified_is_best(self) -> None:
        listed: Any = [
            SimpleNamespace(status=status)
            for status in ("does_not_help", "untested", "verified")
        ]
        self.assertIs(remedies.best(listed), listed[2])
        self.assertIs(remedies.best(listed[:2]), listed[1])
        self.assertIsNone(remedies.best(listed[:1]))

    def test_a_line_counts_the_runs_of_its_own_framework(self) -> None:
        line = {"apply": "Trainer(x)", "source": "docs"}
        lines = {"lightning": line, "transformers": line}
        self.record.sources = [{"id": "docs", "title": "Docs", "url": "https://x.org"}]
        self.record.workarounds = [entry("raise", "code") | {"lines": lines}]
        check = {"check_name": "workaround_raise", "outcome": "clean"}
        self.saw("2.9.1", "bug_present", **check)
        self.assertEqual(self.remedy().status, "verified")
        self.assertEqual({line.evidence for line in self.remedy().lines}, {None})
        self.saw("2.11.0", "bug_present", repro="repro_lightning", **check)
        self.assertNotEqual(self.remedy().evidence, "sha256:2.11.0")
        ran = {line.framework: line.status for line in self.remedy().lines}
        self.assertEqual(ran, {"transformers": "untested", "lightning": "verified"})

    def test_a_line_that_failed_is_not_offered(self) -> None:
        line = {"apply": "Trainer(x)", "source": "docs"}
        self.record.sources = [{"id": "docs", "title": "Docs", "url": "https://x.org"}]
        self.record.workarounds = [
            entry(name, "code") | {"lines": {"lightning": line}}
            for name in ("raise", "lower")
        ]
        self.saw(
            *("2.9.1", "bug_present"),
            **{"repro": "repro_lightning", "check_name": "workaround_raise"},
        )
        findings = list(self.record.findings.all())
        found = remedies.of_record(self.record, findings)
        chosen = remedies.in_framework(found, "accelerate", "lightning")
        self.assertEqual(chosen and chosen[0].entry["name"], "lower")
        self.assertIsNone(remedies.in_framework(found, "transformers"))


@tag("any_database")
class ShippedTest(TestCase):
    def test_each_line_that_a_check_runs_was_verified(self) -> None:
        loaded.shipped_with_evidence()
        run, failed = 0, []
        for record in Record.objects.all():
            stems = {repro.name: repro.checks for repro in record.repros.all()}
            for found in remedies.of_record(record, list(record.findings.all())):
                for line in found.lines:
                    check = f"workaround_{found.entry['name']}"
                    if check in stems.get(f"repro_{line.framework}", ()):
                        run += 1
                        if line.status != "verified":
                            failed.append((record.id, line.framework, check))
        self.assertEqual(failed, [])
        self.assertGreaterEqual(run, 15)

    def test_each_was_executed_or_its_page_says_why_not(self) -> None:
        loaded.shipped_with_evidence()
        silent = [
            f"{record.id}: {found.entry['name']}"
            for record in Record.objects.all()
            for found in remedies.of_record(record, list(record.findings.all()))
            if not found.evidence and not found.not_executed
        ]
        self.assertEqual(silent, [])


def entry(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "apply": "x", "needs": "", "cost": {}}


def plus(versions: tuple[str, ...]) -> list[str]:
    return [f"{raw}+cpu" for raw in versions]
