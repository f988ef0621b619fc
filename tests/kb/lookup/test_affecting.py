"""Which records affect an environment: by sets, as each record would be asked alone."""

from __future__ import annotations

from typing import Any

from django.test import TestCase, tag

from kb.environments.environment import parse_environment
from kb.lookup.affecting import also_affecting
from kb.lookup.answer import look_up
from kb.models import Finding, Record
from kb.publishing.saving import save
from kb.search.index.generation import current_generation
from kb.versions.affected import answer_for
from tests.support import loaded, runs
from tests.support.findings import stored

PASTED = (
    *("torch==1.13.1", "torch==2.0.1+cu117", "torch==2.5.1", "torch==2.6.0+cu124"),
    *("torch==2.7.1", "torch==2.10.0+cu128", "torch==2.13.0+cpu", "torch==2.15.0"),
    *("torch==2.13.0+cpu\ntransformers==4.38.0", "torch==2.9.0.dev20250801"),
    *("torch==2.4.0\ntorch==2.5.1", "torch==2.8.0+rocm6.4", "torch==99.0"),
    *("transformers==4.45.0\ndeepspeed==0.14.0", "torch==2.5.1\ntorchao==0.7.0"),
    *("torch==2.11.0+cu130\nGPU 0: NVIDIA H100 80GB HBM3", "peft==0.1"),
)
EVERY = {"package": "torch", "events": [{"introduced": "0"}], "source": "s-1"}
BUG, CLEAN = "bug_present", "bug_absent"


def one_by_one(pasted: str) -> list[str]:
    """As a look-up of each record says it, whatever it knows of others."""
    env = parse_environment(pasted)
    rows = Record.objects.visible().order_by("pk")
    answers = ((row.pk, answer_for(row, env, on_build(row, env))) for row in rows)
    return [key for key, answer in answers if answer.is_affected]


def on_build(row: Record, env: Any) -> list[Finding]:
    return list(row.findings.filter(build_raw=env.torch_raw or ""))


@tag("any_database")
class ShippedTest(TestCase):
    def test_all_at_once_are_affected_as_each_alone(self) -> None:
        loaded.shipped_with_evidence()
        for pasted in PASTED:
            found = also_affecting(
                parse_environment(pasted), set(), current_generation()
            )
            self.assertEqual(found, one_by_one(pasted), pasted)
        self.assertGreater(len(found := one_by_one("torch==2.6.0+cu124")), 20)
        rest = also_affecting(
            parse_environment("torch==2.6.0+cu124"), {found[0]}, current_generation()
        )
        self.assertEqual(rest, found[1:])

    def test_a_list_without_a_version_of_torch_clears_none_of_its_bugs(self) -> None:
        loaded.shipped()
        for pasted, is_named in (
            ("torch>=2.4,<2.6", False),
            ("torch==2.4.0\ntorch==2.5.1", False),
            ("torch==2.5.1", True),
        ):
            said = look_up("", pasted)["decision"]["en"]
            self.assertEqual("Bugs of torch itself" not in said, is_named, said)


class RunTest(TestCase):
    def setUp(self) -> None:
        self.record = runs.make_record("NAN-9009")
        self.record.affected = []
        save(self.record)

    def saw(self, verdict: str, **columns: Any) -> None:
        name = f"repro_{Finding.objects.count()}"
        stored(self.record, verdict=verdict, repro=name, **columns)

    def is_affected(self, pasted: str = "torch==2.13.0+cpu") -> bool:
        found = also_affecting(parse_environment(pasted), set(), current_generation())
        self.assertEqual(found, one_by_one(pasted))
        return bool(found)

    def test_a_run_on_this_build_decides(self) -> None:
        self.assertFalse(self.is_affected())
        self.saw(CLEAN)
        self.assertFalse(self.is_affected())
        self.saw(BUG)
        self.assertTrue(self.is_affected())
        self.assertFalse(self.is_affected("torch==2.12.0"))

    def test_a_run_clears_what_is_documented(self) -> None:
        self.record.affected = [EVERY]
        save(self.record)
        self.assertTrue(self.is_affected())
        self.saw(CLEAN)
        self.assertFalse(self.is_affected())

    def test_nothing_follows_of_what_is_stale_or_a_model(self) -> None:
        self.saw(BUG, stale=True)
        self.saw(BUG, fidelity="mechanism_model")
        self.assertFalse(self.is_affected())

    def test_a_named_fix_that_no_run_confirmed_makes_it_unsure(self) -> None:
        self.record.affected = [EVERY]
        self.record.fixes = [{"package": "torch", "version": "2.1", "kind": "fix"}]
        save(self.record)
        self.assertFalse(self.is_affected())
        self.assertTrue(self.is_affected("torch==2.0.1"))
