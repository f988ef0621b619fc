"""How many traps rules find in code as people write it, and what they leave alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.test import SimpleTestCase

from kb.rules import checkout
from kb.rules.findings import find
from kb.rules.patterns import Rule

HEAD = re.compile(r"^### (NAN-\d{4}|clean) (.+)$", re.MULTILINE)
MARK = "#!"
# Of a hundred traps; none of them was written beside the rule that finds it.
FOUND_AT_LEAST = 85


class Trap(NamedTuple):
    """A program with one marked line, or a clean one with none."""

    record: str
    name: str
    source: str

    @property
    def line(self) -> int:
        marked = [x for x, y in enumerate(self.source.split("\n"), 1) if MARK in y]
        return marked[0] if marked else 0


def traps() -> list[Trap]:
    found = []
    for path in sorted((Path(__file__).parent / "traps").glob("*.txt")):
        parts = HEAD.split(path.read_text())[1:]
        for record, name, source in zip(*[iter(parts)] * 3, strict=True):
            found.append(Trap(record, name, source.lstrip("\n")))
    return found


def seen(trap: Trap, rules: list[Rule]) -> set[tuple[str, int]]:
    """Each line of each finding, with its record."""
    return {
        (one.record, line)
        for one in find(trap.source, rules)
        for line in range(one.line, one.end_line + 1)
    }


class TrapsTest(SimpleTestCase):
    rules: list[Rule]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = settings.BASE_DIR / "fixtures" / "issues"
        cls.rules = [Rule(rule) for rule in checkout.rules_of(str(folder))]

    def test_of_traps_most_are_found_on_their_line(self) -> None:
        written = [trap for trap in traps() if trap.record != "clean"]
        missed = [
            f"{trap.record} {trap.name}"
            for trap in written
            if (trap.record, trap.line) not in seen(trap, self.rules)
        ]
        rate = 100 * (1 - len(missed) / len(written))
        self.assertGreaterEqual(len(written), 83)
        self.assertGreaterEqual(rate, FOUND_AT_LEAST, missed)

    def test_code_that_only_looks_like_one_is_left_alone(self) -> None:
        for trap in traps():
            if trap.record == "clean":
                with self.subTest(trap.name):
                    self.assertEqual(seen(trap, self.rules), set())
