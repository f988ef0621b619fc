"""Evidence outlives an edit of what it did not execute, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase, TestCase

from kb.models import Finding, Repro
from portable import harness
from runner.evidence import executed, store
from runner.evidence.store import EvidenceRefused
from runner.models import Evidence
from tests.support import runs

SOURCE = runs.source(
    '''

"""What it shows."""
import math

SCALE = 2.0
OTHER = 3


def helper():
    return SCALE * math.pi


def only_of_workaround():
    """Of one workaround."""
    return OTHER


def diagnose_it(x):
    return x > 0


@staticmethod
def registered():
    return None


def control():
    return {"nonfinite": 0, "grad": 1.0, "diagnose_it": diagnose_it(0)}


def detector():
    return {"nonfinite": 1}


def trigger():
    # Twice.
    return {"nonfinite": 1, "grad": helper(), "diagnose_it": diagnose_it(1)}


def workaround_off():
    return {"nonfinite": 0, "grad": only_of_workaround()}


def workaround_other():
    return {"nonfinite": 0, "grad": 1.0}
'''
)
ALL = {
    *("control", "detector", "trigger", "workaround_off", "workaround_other"),
    "diagnose_it",
}


class PartsTest(SimpleTestCase):
    def changed(self, old: str, new: str) -> set[str]:
        """The parts that differ once `old` is `new`."""
        self.assertEqual(SOURCE.count(old), 1, old)
        before, after = (
            executed.of_source(SOURCE),
            executed.of_source(SOURCE.replace(old, new)),
        )
        return {name for name in before if after.get(name) != before[name]}

    def test_every_check_and_diagnosis_is_a_part(self) -> None:
        self.assertEqual(set(executed.of_source(SOURCE)), ALL)

    def test_what_is_not_executed_changes_nothing(self) -> None:
        for old, new in (
            ("    # Twice.\n", "    # Three times.\n\n"),
            ("What it shows.", "What it shows, in other words."),
            ("Of one workaround.", "Of it."),
            ("# trials = 1\n", "# trials = 1\n# timeout_s = 90\n"),
        ):
            with self.subTest(new):
                self.assertEqual(self.changed(old, new), set())

    def test_a_helper_changes_what_reaches_it(self) -> None:
        for old, new, reaches in (
            ("SCALE * math", "2 * SCALE * math", {"trigger"}),
            ("SCALE = 2.0", "SCALE = 2.5", {"trigger"}),
            ("OTHER = 3", "OTHER = 4", {"workaround_off"}),
            ("x > 0", "x >= 0", {"diagnose_it"}),
        ):
            with self.subTest(new):
                self.assertEqual(self.changed(old, new), reaches)

    def test_what_acts_on_import_changes_everything(self) -> None:
        for old, new in (
            ("import math", "import math, os"),
            ("SCALE = 2.0", "SCALE = float(2)"),
            ("@staticmethod", "@property"),
            ('# bug = "nonfinite > 0"', '# bug = "nonfinite > 1"'),
        ):
            with self.subTest(new):
                self.assertEqual(self.changed(old, new), ALL)

    def test_an_environment_of_one_check_changes_that_check(self) -> None:
        set_for_one = '# trials = 1\n# [tool.doesitnan.env.workaround_off]\n# A = "1"\n'
        self.assertEqual(
            self.changed("# trials = 1\n", set_for_one), {"workaround_off"}
        )

    def test_a_finding_of_a_variant_rests_on_its_values_too(self) -> None:
        needed = set(executed.needed("variant_bf16 off"))
        self.assertEqual(
            needed - set(executed.VERDICT), {"variant bf16", "workaround_off"}
        )


class EditTest(TestCase):
    """What stands of stored evidence once its repro is another."""

    def setUp(self) -> None:
        self.repro = runs.make_repro(SOURCE)
        self.body = runs.make_evidence(self.repro, diagnosed=(False, True))

    def after(self, old: str, new: str) -> set[str]:
        """The stale findings after that edit."""
        self.assertEqual(SOURCE.count(old), 1, old)
        self.repro = runs.make_repro(SOURCE.replace(old, new))
        store.refresh_staleness(self.repro.record)
        rows = Finding.objects.filter(stale=True)
        return set(rows.values_list("check_name", flat=True))

    def test_only_what_rests_on_the_edit_becomes_stale(self) -> None:
        store.add(self.body, store.SITE)
        for old, new, stale in (
            ("OTHER = 3", "OTHER = 4", {"workaround_off"}),
            ("x > 0", "x >= 0", {"diagnose_it"}),
            ("# Twice.", "# Once.", set()),
            ("SCALE = 2.0", "SCALE = 9.0", ALL),
        ):
            with self.subTest(new):
                self.assertEqual(self.after(old, new), stale)

    def test_one_more_workaround_makes_nothing_stale(self) -> None:
        store.add(self.body, store.SITE)
        more = "def workaround_more():\n    return {'nonfinite': 0, 'grad': 1.0}\n\n\n"
        self.assertEqual(
            self.after("def workaround_off", more + "def workaround_off"), set()
        )

    def test_evidence_of_the_former_source_is_still_judged(self) -> None:
        self.after("# Twice.", "# Once.")
        lie = runs.signed({**self.body, "verdict": "bug_absent"})
        with self.assertRaisesMessage(EvidenceRefused, "Its checks give verdict"):
            store.add(lie, store.SITE)
        store.add(self.body, store.SITE)
        self.assertFalse(Finding.objects.get(check_name="trigger").stale)

    def test_parts_that_are_not_those_of_the_source_are_refused(self) -> None:
        ran = {**self.body["repro"], "parts": {"trigger": "0" * 16}}
        with self.assertRaisesMessage(EvidenceRefused, "repro.parts"):
            store.add(runs.signed({**self.body, "repro": ran}), store.SITE)

    def test_evidence_that_nobody_knows_the_parts_of_is_stale(self) -> None:
        ran = {key: self.body["repro"][key] for key in ("name", "digest", "fidelity")}
        store.add(runs.signed({**self.body, "repro": ran}), store.SITE)
        self.assertEqual(self.after("# Twice.", "# Once."), ALL)

    def test_pages_ask_one_query_more_for_an_older_source(self) -> None:
        store.add(self.body, store.SITE)
        self.after("# Twice.", "# Once.")
        with self.assertNumQueries(2):
            holding = executed.holding(self.repro.record)
        digests = Evidence.objects.values_list("repro_digest", flat=True)
        self.assertLessEqual({("repro", digest) for digest in digests}, holding)


class ShippedTest(SimpleTestCase):
    """All shipped evidence stands after edits that it did not execute."""

    def evidence(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for kind in ("evidence", "sweeps"):
            for path in sorted(settings.ISSUES_DIR.glob(f"*/{kind}/*.json")):
                yield path, json.loads(path.read_bytes())

    def edited(self, source: str) -> Repro:
        """The repro with a comment, a helper and a check more."""
        more = "\n\n# More.\ndef also():\n    return 1\n\n\ndef refuted_also():\n"
        text = f"{source}{more}    return {{'also': also()}}\n"
        return Repro(source=text, digest=harness.source_digest(text))

    def test_of_each_piece_the_parts_are_known_and_hold(self) -> None:
        edited: dict[Path, Repro] = {}
        for path, body in self.evidence():
            source = path.parent.parent / f"{body['repro']['name']}.py"
            if source not in edited:
                edited[source] = self.edited(source.read_text(encoding="utf-8"))
            names = executed.checks_of(executed.parts_in(body["repro"]))
            with self.subTest(record=path.parent.parent.name, file=path.name):
                self.assertIn("trigger", names)
                for name in (*names, "reference"):
                    self.assertTrue(executed.holds(body["repro"], edited[source], name))

    def test_the_ledger_says_of_a_source_what_is_said_of_it_today(self) -> None:
        paths = settings.ISSUES_DIR.glob("*/repro*.py")
        sources = [path.read_text(encoding="utf-8") for path in paths]
        for source in sources:
            known = executed.ledger().get(harness.source_digest(source))
            if known is not None:
                self.assertEqual(executed.of_source(source), known)
