"""The doctor says of an environment what record and look-up say of it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any
from unittest import mock

from django.test import TestCase, tag

from kb.choices import Upstream, Verdict
from kb.environments.environment import parse_environment
from kb.lookup.answer import affected_by
from kb.models import Finding, Record
from kb.versions.affected import TESTED, answer_for
from kb.versions.ranges import AFFECTED, NOT_AFFECTED
from runner.takeaway import bundle
from tests.support import loaded


def program() -> Any:
    """`programs/doctor.py`, as the file that people take away starts it."""
    path = [str(bundle.PROGRAMS), *sys.path]
    with mock.patch.object(sys, "path", path), mock.patch.dict(sys.modules):
        return importlib.import_module("doctor")


def place(row: Finding) -> tuple[str, str, str, str]:
    """Where a run was made: what the doctor finds in an environment like it."""
    packages = row.made_with.get("packages", {})
    pins = "\n".join(f"{name}=={raw}" for name, raw in sorted(packages.items()))
    return row.build_raw, row.build, row.device_class, pins


@tag("any_database")
class EveryVerdictTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()
        cls.records = list(Record.objects.visible().with_everything())

    def rows(self, record: Record) -> list[Finding]:
        judged = (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)
        found = [
            row
            for row in record.findings.all()
            if row.is_fresh_verdict and not row.is_model and row.verdict in judged
        ]
        return sorted(found, key=place)

    def examined(self, record: Record) -> Iterator[tuple[Any, list[Any]]]:
        """Environments in which runs stand, with the rows that the doctor gives."""
        doctor = program()
        repros = {repro.name: bundle.about(repro) for repro in record.repros.all()}
        for where, rows in groupby(self.rows(record), key=place):
            yield (
                where,
                [
                    doctor.result_of(repros[row.repro], {"verdict": row.verdict})
                    for row in rows
                ],
            )

    def test_it_agrees_with_the_rule(self) -> None:
        seen = 0
        for record in self.records:
            for (raw, _build, device, pins), results in self.examined(record):
                seen += 1
                env = replace(parse_environment(f"torch=={raw}\n{pins}"), device=device)
                told = answer_for(record, env, record.findings.all())
                bug = any(row["verdict"] == Verdict.BUG_PRESENT for row in results)
                said = (record, env.torch_raw, device, pins, told)
                is_tested = told.basis == TESTED
                if any(row["counts"] for row in results):
                    self.assertEqual(told.answer, AFFECTED, said)
                    # A GPU of another kind than the one of the run is not known.
                    self.assertTrue(is_tested or device == "cuda", said)
                elif bug:
                    self.assertEqual(record.upstream, Upstream.BY_DESIGN, said)
                    self.assertNotEqual(told.answer, NOT_AFFECTED, said)
                else:
                    self.assertFalse(is_tested and told.answer == AFFECTED, said)
        self.assertGreater(seen, 1000)

    def test_it_agrees_with_look_up(self) -> None:
        seen = 0
        for record in self.records:
            for (raw, _build, _device, pins), results in self.examined(record):
                bug = any(row["verdict"] == Verdict.BUG_PRESENT for row in results)
                counts = any(row["counts"] for row in results)
                if raw.endswith("+cpu") and (counts or not bug):
                    seen += 1
                    found = affected_by(record, f"torch=={raw}\n{pins}")["affected"]
                    said = (record, raw, pins)
                    self.assertIs(found["is_affected"] is True, counts, said)
        self.assertGreater(seen, 50)
