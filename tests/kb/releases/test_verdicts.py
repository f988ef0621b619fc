"""What a comparison works out is what one row after the other says."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable

from kb.models import Finding
from kb.releases import comparison
from kb.releases.comparison import BAD, DIFFERS, GOOD, STANDING_OF_A_RECORD, Item
from tests.kb.releases.test_comparison import ComparisonCase, finding

BUILDS = [("2.5.1", "cpu"), ("2.5.1", "cu124"), ("2.6.0", "cpu"), ("2.6.0", "cu124")]
WORDS = {"bug_present": BAD, "bug_absent": GOOD}
KINDS = {(BAD, GOOD): "fixed", (GOOD, BAD): "new"}
KINDS |= {(BAD, BAD): "bad_on_both", (GOOD, GOOD): "good_on_both"}


def agreed(words: Iterable[str]) -> str:
    several = set(words)
    return several.pop() if len(several) == 1 else DIFFERS if several else ""


class ByRow:
    """The same by walking every row, of all devices."""

    def __init__(self) -> None:
        self.rows = list(Finding.objects.order_by("record_id"))
        self.kinds: dict[str, str] = {}
        self.items: set[Item] = set()
        for (record, repro, device), sides in self.cells("trigger").items():
            first, last = (
                agreed(WORDS[row.verdict] for row in side if row.verdict in WORDS)
                for side in sides
            )
            if not first or not last:
                continue
            kind = KINDS.get((first, last), DIFFERS)
            if kind in ("fixed", "new", DIFFERS):
                self.items.add(Item(kind, record, repro, device))
            else:
                self.add_workaround(record, repro, device)
            both = kind, self.kinds.get(record, kind)
            self.kinds[record] = min(both, key=STANDING_OF_A_RECORD.index)

    def cells(self, check: str) -> dict[tuple[str, str, str], list[list[Finding]]]:
        found: dict[tuple[str, str, str], list[list[Finding]]]
        found = defaultdict(lambda: [[], []])
        for row in self.rows:
            if row.check_name == check and not row.stale and not row.is_model:
                key = row.record_id, row.repro, row.device_class
                found[key][row.build.startswith("2.6.0")].append(row)
        return found

    def add_workaround(self, record: str, repro: str, device: str) -> None:
        helps = []
        key = record, repro, device
        for side in self.cells("workaround_off").get(key, [[], []]):
            against = [row for row in side if row.verdict == "bug_present"]
            ran = {row.outcome for row in against} & {"bug", "clean"}
            helps.append("bug" not in ran if ran else None)
        if helps == [True, False]:
            self.items.add(Item("workaround_ceases", *key, check="workaround_off"))
        if helps == [False, True]:
            self.items.add(Item("workaround_begins", *key, check="workaround_off"))


class ByRowTest(ComparisonCase):
    def scatter(self, chance: random.Random) -> None:
        """Every kind of row that there can be."""
        for at, record in enumerate(self.records):
            rows = []
            for repro in ("repro", "repro_again"):
                for device in ("cpu", "cuda"):
                    # Mostly alike on all builds, so that there is what stays.
                    usual = chance.choice((True, False))
                    for release, local in BUILDS:
                        bug = chance.choice((usual, usual, usual, not usual, None))
                        facts = {
                            "local": local,
                            "repro": repro,
                            "device_class": device,
                            "stale": chance.random() < 0.1,
                        }
                        if chance.random() < 0.1:
                            facts["fidelity"] = "mechanism_model"
                        rows.append(finding(record, release, bug, **facts))
                        outcome = chance.choice(("bug", "clean", "clean", "error"))
                        facts |= {"check_name": "workaround_off", "outcome": outcome}
                        rows.append(finding(record, release, bug, **facts))
            chance.shuffle(rows)
            self.keep(at, *rows[: chance.randrange(20, len(rows))])

    def test_of_scattered_rows_both_say_the_same(self) -> None:
        told = set()
        for seed in range(6):
            self.scatter(random.Random(seed))
            found, by_row = self.compare("2.5.1", "2.6.0"), ByRow()
            with self.subTest(seed=seed):
                judged = {
                    record: kind
                    for record, kind in found.kinds.items()
                    if kind != comparison.NOT_TESTED
                }
                self.assertEqual(judged, by_row.kinds)
                items = found.items()
                self.assertEqual(set(items), by_row.items)
                self.assertEqual(len(items), found.total)
                place = comparison.CHANGES.index
                ordered = sorted(items, key=lambda item: (place(item.kind), item))
                self.assertEqual(items, ordered)
                self.assertEqual(found.items(2, 5), items[2:5])
            told |= {item.kind for item in items}
        self.assertLessEqual(
            {"new", "fixed", DIFFERS, "workaround_ceases", "workaround_begins"}, told
        )

    def test_another_build_s_finding_is_seen_at_once(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=True)
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [])
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        self.assertEqual(self.changes("2.5.1", "2.6.0"), [("fixed", "NAN-9001")])
