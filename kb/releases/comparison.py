"""What two sides show of every record: fixed, new, the same, not tested on both.

By fresh verdicts of the bug itself, where one repro was judged on one class of device
on both sides. Where none was, documents speak: with a run on the later side that agrees
a bug is new or fixed, without one it is likely so. A run with packages of its own
counts where just these are installed.
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
from kb.releases.documented import facts_of_all
from kb.releases.installed import Narrowed
from kb.releases.sides import Side
from kb.releases.verdicts import (
    DIFFERS,
    Answers,
    Key,
    Keys,
    record_of,
    records_of,
    trigger_of,
)
from kb.search.index.generation import Generation, current_generation
from kb.versions.affected import Documented, answer_for
from kb.versions.devices import device_of
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, UNKNOWN

NEW, FIXED = "new", "fixed"
BAD_ON_BOTH, GOOD_ON_BOTH, NOT_TESTED = "bad_on_both", "good_on_both", "not_tested"
CEASES, BEGINS = "workaround_ceases", "workaround_begins"
BEHAVIOUR = "behaviour"
LIKELY_NEW, LIKELY_FIXED = "likely_new", "likely_fixed"
# In the order in which they are told.
CHANGES = (
    *(NEW, LIKELY_NEW, FIXED, LIKELY_FIXED),
    *(CEASES, BEGINS, BEHAVIOUR, DIFFERS),
)
# Of a record with several repros or devices the first that is true of one of them.
STANDING_OF_A_RECORD = (NEW, FIXED, DIFFERS, BAD_ON_BOTH, GOOD_ON_BOTH)
# Counted by what is told, not by record.
BESIDE = [kind for kind in CHANGES if kind not in STANDING_OF_A_RECORD]
# By documents: the kind where the later side was run, and where it was not.
TURNED: dict[tuple[str, ...], tuple[str, str]] = {
    (AFFECTED, NOT_AFFECTED): (FIXED, LIKELY_FIXED),
    (NOT_AFFECTED, AFFECTED): (NEW, LIKELY_NEW),
}
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
    def on_both(self) -> Keys:
        return self.before.judged & self.after.judged

    @property
    def alone(self) -> tuple[Answers, Answers]:
        """What was judged on one side only."""
        return self.before.without(self.after), self.after.without(self.before)


@dataclass(frozen=True)
class Comparison:
    """`kinds`: each record that counts -> how it stands, NOT_TESTED included.

    `changed`: what is told, by kind in their order. `devices`: those on which anything
    was judged on both. `envs`: what documents are asked about.
    """

    before: Side
    after: Side
    device: str
    envs: tuple[Environment, Environment]
    kinds: Mapping[str, str]
    changed: Mapping[str, list[Key]]
    devices: frozenset[str]
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
            **{
                kind: changes.get(kind, 0)
                for kind in CHANGES
                if kind not in STANDING_OF_A_RECORD
            },
        }

    @property
    def is_tested(self) -> bool:
        """Whether any record was judged on both sides."""
        return bool(self.devices)

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
    def query(self) -> str:
        names = {"from": self.before.name, "to": self.after.name}
        device = {"device": self.device} if self.device else {}
        return f"/api/v1/compare?{urlencode(names | device)}"

    def standing(self, kind: str) -> list[str]:
        return [record for record, found in self.kinds.items() if found == kind]


def compare(
    before: Side, after: Side, device: str = "", env: Environment | None = None
) -> Comparison:
    """`env`: only what can concern what is installed there, on its device."""
    generation = current_generation()
    if env is None:
        return whole(generation, before, after, device)
    narrowed = installed.narrow(facts_of_all(generation[0]), env)
    return compared(generation, before, after, device or device_of(env), narrowed)


@lru_cache(maxsize=KEPT)
def whole(generation: Generation, before: Side, after: Side, device: str) -> Comparison:
    return compared(generation, before, after, device)


def compared(
    generation: Generation,
    before: Side,
    after: Side,
    device: str,
    narrowed: Narrowed | None = None,
) -> Comparison:
    """Of the records that can concern what is installed."""
    env = narrowed.env if narrowed else None
    builds = before.builds, after.builds
    judged = (
        judge(generation, *builds, device, env)
        if env
        else judged_on(generation, *builds, device)
    )
    every = facts_of_all(generation[0])
    facts = {key: every[key] for key in narrowed.records} if narrowed else every
    kinds = {key: judged.kinds.get(key, NOT_TESTED) for key in facts}
    both = {key for key in judged.on_both if record_of(key) in facts}
    untested = {key: facts[key] for key, kind in kinds.items() if kind == NOT_TESTED}
    envs = before.env_of(device, env), after.env_of(device, env)
    alone = judged.alone
    found = by_documents(
        untested, alone[1], list(zip((before, after), envs, strict=True))
    )
    for kind, keys in judged.changed.items():
        found[kind] += [key for key in keys if record_of(key) in facts]
    kinds |= {
        record_of(key): kind
        for kind in (NEW, FIXED)
        for key in found[kind]
        if record_of(key) in untested
    }
    left = {key for key, kind in kinds.items() if kind == NOT_TESTED}
    here, there = (left.intersection(records_of(side.judged)) for side in alone)
    return Comparison(
        before=before,
        after=after,
        device=device,
        envs=envs,
        kinds=kinds,
        changed={kind: sorted(found[kind]) for kind in CHANGES if found[kind]},
        devices=frozenset(key[2] for key in both),
        only_before=len(here),
        only_after=len(there),
        narrowed=narrowed,
    )


def by_documents(
    facts: Mapping[str, Documented],
    alone: Answers,
    sides: list[tuple[Side, Environment]],
) -> defaultdict[str, list[Key]]:
    """Of records that were not run on both: what documents say, unless a run says that
    they err. `alone`: what runs show on the later side only; they are told of.
    """
    turned: dict[str, tuple[str, ...]] = {}
    for key, fact in facts.items():
        both = tuple(answer_for(fact, env).answer for _side, env in sides)
        if both in TURNED:
            turned[key] = both
    ran = verdicts.runs_on([side.builds for side, _env in sides], turned)
    shown = {AFFECTED: by_record(alone.bad), NOT_AFFECTED: by_record(alone.good)}
    found: defaultdict[str, list[Key]] = defaultdict(list)
    for key, both in turned.items():
        known, rows = facts[key], ran.get(key, [[], []])
        if not any(
            is_contradicted(known, env, answer, several)
            for (_side, env), answer, several in zip(sides, both, rows, strict=True)
        ):
            runs = shown[both[1]].get(key, [])
            found[TURNED[both][0 if runs else 1]] += runs or [(key,)]
    return found


def is_contradicted(
    known: Documented, env: Environment, documented: str, rows: list[Finding]
) -> bool:
    """By a run of this side, as the rule takes it."""
    return any(
        answer_for(known, replace(env, torch_raw=row.build_raw), rows).answer
        not in (documented, UNKNOWN)
        for row in rows
    )


def by_record(keys: Keys) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key in keys:
        found.setdefault(record_of(key), []).append(key)
    return found


# --- what runs show ------------------------------------------------------------------
@lru_cache(maxsize=KEPT)
def judged_on(
    generation: Generation,
    before: tuple[str, ...],
    after: tuple[str, ...],
    device: str = "",
) -> Judged:
    """Cached: not to be modified."""
    return judge(generation, before, after, device, None)


def judge(
    generation: Generation,
    before: tuple[str, ...],
    after: tuple[str, ...],
    device: str,
    env: Environment | None,
) -> Judged:
    """`env`: what is installed, for runs with packages of their own."""
    first, last = (
        verdicts.answers_of(generation, side, device, env) for side in (before, after)
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
    return Item(kind, *key)


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
    return [row[:3] for row in found]


def grouped(rows: QuerySet[Finding], *keys: str, **seen: Any) -> QuerySet[Any, Any]:
    """A row for each group: its keys, then what was seen in it, in this order."""
    return rows.values_list(*keys).annotate(**seen)
