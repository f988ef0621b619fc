"""What two sides show of every record: fixed, new, the same, not tested on both.

By fresh verdicts of the bug itself, and only where one repro was judged on one class of
device on both sides. What is documented where nothing ran is told apart, as "likely".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, islice, repeat
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import F, Max, Min, Q, QuerySet

from kb.environments.environment import Environment
from kb.models import Finding
from kb.releases import installed, verdicts
from kb.releases.documented import Facts, answers, facts_of_all
from kb.releases.installed import Narrowed
from kb.releases.sides import Side
from kb.releases.verdicts import (
    BAD,
    DIFFERS,
    GOOD,
    Answers,
    Key,
    Keys,
    record_of,
    records_of,
    trigger_of,
)
from kb.search.index.generation import Generation, current_generation
from kb.versions.ranges import AFFECTED, NOT_AFFECTED

NEW, FIXED = "new", "fixed"
BAD_ON_BOTH, GOOD_ON_BOTH, NOT_TESTED = "bad_on_both", "good_on_both", "not_tested"
CEASES, BEGINS = "workaround_ceases", "workaround_begins"
BEHAVIOUR = "behaviour"
LIKELY_NEW, LIKELY_FIXED = "likely_new", "likely_fixed"
# In the order in which they are told.
CHANGES = (
    *(NEW, FIXED, CEASES, BEGINS, BEHAVIOUR, DIFFERS),
    *(LIKELY_NEW, LIKELY_FIXED),
)
# Of a record with several repros or devices the first that is true of one of them.
STANDING_OF_A_RECORD = (NEW, FIXED, DIFFERS, BAD_ON_BOTH, GOOD_ON_BOTH)
PLACE = {kind: at for at, kind in enumerate(CHANGES)}
OF_ANSWER = {AFFECTED: BAD, NOT_AFFECTED: GOOD}
LIKELY = {(BAD, GOOD): LIKELY_FIXED, (GOOD, BAD): LIKELY_NEW}
KEPT = 16


class Item(NamedTuple):
    """One change: of a repro on a class of device, `check` where it is a workaround's.

    What only documents say is of no repro.
    """

    kind: str
    record: str
    repro: str = ""
    device: str = ""
    check: str = ""


class Turn(NamedTuple):
    """How one repro stands on both sides: bad, good, differs between builds, or ""."""

    record: str
    repro: str
    device: str
    before: str
    after: str


@dataclass(frozen=True)
class Judged:
    """What runs show. `kinds`: how each record stands that was judged on both.

    `changed`: by kind, what is told of those.
    """

    before: Answers
    after: Answers
    kinds: Mapping[str, str]
    changed: Mapping[str, list[Key]]

    @property
    def alone(self) -> tuple[Answers, Answers]:
        """What was judged on one side only."""
        return self.before.without(self.after), self.after.without(self.before)

    def turns_of(self, records: set[str]) -> dict[str, list[Turn]]:
        """Of each of these that was judged on a side."""
        found: defaultdict[str, list[Turn]] = defaultdict(list)
        for key in sorted(self.before.judged | self.after.judged):
            if record_of(key) in records:
                record, repro, device = key.split(" ")
                turn = Turn(
                    *(record, repro, device), self.before.of(key), self.after.of(key)
                )
                found[record].append(turn)
        return dict(found)


@dataclass(frozen=True)
class Comparison:
    """`kinds`: each record that counts -> how it stands, NOT_TESTED included.

    `changed`: what is told, by kind in their order.
    """

    before: Side
    after: Side
    device: str
    kinds: Mapping[str, str]
    changed: Mapping[str, list[Key]]
    # Of those not tested on both: judged on the one, on the other.
    only_before: int
    only_after: int
    narrowed: Narrowed | None

    @cached_property
    def counts(self) -> dict[str, int]:
        """Records by how they stand; and of the other changes, how many there are."""
        records = Counter(self.kinds.values())
        changes = {kind: len(keys) for kind, keys in self.changed.items()}
        same = records[BAD_ON_BOTH] + records[GOOD_ON_BOTH]
        return {
            **{kind: records[kind] for kind in (*STANDING_OF_A_RECORD, NOT_TESTED)},
            "same": same,
            **{kind: changes.get(kind, 0) for kind in (*CHANGES[2:5], *CHANGES[6:])},
        }

    @property
    def is_tested(self) -> bool:
        """Whether any record was judged on both sides."""
        return self.counts[NOT_TESTED] < len(self.kinds)

    @property
    def total(self) -> int:
        return sum(map(len, self.changed.values()))

    def items(self, start: int = 0, end: int | None = None) -> list[Item]:
        """What is told, or a part of it."""
        every = (zip(repeat(kind), keys) for kind, keys in self.changed.items())
        some = islice(chain.from_iterable(every), start, end)
        return [item_of(kind, key) for kind, key in some]

    @property
    def untested_sides(self) -> list[Side]:
        return [side for side in (self.before, self.after) if not side.builds]

    @property
    def command(self) -> str:
        return f"manage.py compare {self.before.name} {self.after.name}"

    @property
    def query(self) -> str:
        names = {"from": self.before.name, "to": self.after.name}
        device = {"device": self.device} if self.device else {}
        return f"/api/v1/compare?{urlencode(names | device)}"

    def standing(self, kind: str) -> list[str]:
        return [record for record, found in self.kinds.items() if found == kind]


def compare(
    before: Side, after: Side, device: str = "", env: Environment | None = None
) -> Comparison:
    """`env`: only records that can concern what is installed there."""
    generation = current_generation()
    asked = before, after, device
    return narrowed(generation, *asked, env) if env else whole(generation, *asked)


@lru_cache(maxsize=KEPT)
def whole(generation: Generation, before: Side, after: Side, device: str) -> Comparison:
    facts = facts_of_all(generation[0])
    return compared(generation, before, after, device, facts)


def narrowed(
    generation: Generation, before: Side, after: Side, device: str, env: Environment
) -> Comparison:
    facts = facts_of_all(generation[0])
    found = installed.narrow(facts, env)
    listed = {key: facts[key] for key in found.records}
    return replace(compared(generation, before, after, device, listed), narrowed=found)


def compared(
    generation: Generation,
    before: Side,
    after: Side,
    device: str,
    facts: Mapping[str, Facts],
) -> Comparison:
    """Of the records in `facts`."""
    judged = judged_on(generation, before.builds, after.builds, device)
    kinds = {key: judged.kinds.get(key, NOT_TESTED) for key in facts}
    untested = [key for key, kind in kinds.items() if kind == NOT_TESTED]
    alone = judged.alone
    found = {
        kind: [key for key in keys if record_of(key) in facts]
        for kind, keys in judged.changed.items()
    }
    found |= likely({key: facts[key] for key in untested}, alone, before, after)
    here, there = (set(records_of(side.judged)) for side in alone)
    return Comparison(
        before=before,
        after=after,
        device=device,
        kinds=kinds,
        changed={kind: found[kind] for kind in CHANGES if found[kind]},
        only_before=len(here.intersection(untested)),
        only_after=len(there.intersection(untested)),
        narrowed=None,
    )


def likely(
    facts: Mapping[str, Facts],
    alone: tuple[Answers, Answers],
    before: Side,
    after: Side,
) -> dict[str, list[Key]]:
    """Of records that were not run on both: what documents say, unless the run on the
    one side says that they err.
    """
    said = answers(before.env), answers(after.env)
    others = [contradicting(side) for side in alone]
    found: dict[str, list[Key]] = {LIKELY_NEW: [], LIKELY_FIXED: []}
    for key, fact in facts.items():
        documented = [OF_ANSWER.get(side(fact).answer, "") for side in said]
        kind = LIKELY.get((documented[0], documented[1]))
        if kind and not any(
            key in side[answer] for side, answer in zip(others, documented, strict=True)
        ):
            found[kind].append(key)
    return found


def contradicting(side: Answers) -> dict[str, set[str]]:
    """What is documented -> the records of which a run shows something else."""
    bad, good, differs = (set(records_of(keys)) for keys in side)
    return {BAD: good | differs, GOOD: bad | differs}


# --- what runs show ------------------------------------------------------------------
@lru_cache(maxsize=KEPT)
def judged_on(
    generation: Generation,
    before: tuple[str, ...],
    after: tuple[str, ...],
    device: str = "",
) -> Judged:
    """Cached: not to be modified."""
    first, last = (
        verdicts.answers_of(generation, side, device) for side in (before, after)
    )
    turns = turns_between(first, last)
    kinds: dict[str, str] = {}
    for kind in reversed(STANDING_OF_A_RECORD):
        kinds |= dict.fromkeys(records_of(turns[kind]), kind)
    same = turns[BAD_ON_BOTH] | turns[GOOD_ON_BOTH]
    beside = {
        **workarounds_between(generation, before, after),
        BEHAVIOUR: behaviour_between(before, after, device),
    }
    changed: dict[str, Iterable[Key]] = {
        **{kind: turns[kind] for kind in (NEW, FIXED, DIFFERS)},
        # Also of the device that is asked for: `same` has no other.
        **{
            kind: (key for key in keys if trigger_of(key) in same)
            for kind, keys in beside.items()
        },
    }
    found = {kind: sorted(keys) for kind, keys in changed.items()}
    return Judged(first, last, kinds, found)


def turns_between(first: Answers, last: Answers) -> dict[str, Keys]:
    """What was judged on both sides, by how it turned."""
    found = {
        FIXED: first.bad & last.good,
        NEW: first.good & last.bad,
        BAD_ON_BOTH: first.bad & last.bad,
        GOOD_ON_BOTH: first.good & last.good,
    }
    differs = (first.differs & last.judged) | (first.judged & last.differs)
    return found | {DIFFERS: differs}


def item_of(kind: str, key: Key) -> Item:
    return Item(kind, *key.split(" "))


def workarounds_between(
    generation: Generation, before: tuple[str, ...], after: tuple[str, ...]
) -> dict[str, Keys]:
    """By runs against the bug."""
    first, last = (verdicts.remedies_of(generation, side) for side in (before, after))
    return {CEASES: first.helped & last.failed, BEGINS: first.failed & last.helped}


def behaviour_between(
    before: tuple[str, ...], after: tuple[str, ...], device: str
) -> list[Key]:
    """Triggers that said one thing on all builds before, another on all after."""
    rows = verdicts.of_the_bug([*before, *after]).filter(said__isnull=False)
    if device:
        rows = rows.filter(device_class=device)
    first, last = Q(build__in=(*before, "")), Q(build__in=(*after, ""))
    said = {
        "before": Min("said", filter=first),
        "before_too": Max("said", filter=first),
        "after": Min("said", filter=last),
        "after_too": Max("said", filter=last),
    }
    keys = ("record_id", "repro", "device_class")
    settled = Q(before=F("before_too"), after=F("after_too"))
    found = grouped(rows, *keys, **said).filter(settled & ~Q(before=F("after")))
    return [" ".join(row[:3]) for row in found]


def grouped(rows: QuerySet[Finding], *keys: str, **seen: Any) -> QuerySet[Any, Any]:
    """A row for each group: its keys, then what was seen in it, in this order."""
    return rows.values_list(*keys).annotate(**seen)
