"""What two sides show of every record: fixed, new, the same, not tested on both.

By fresh verdicts of the bug itself, and only where one repro was judged on one class of
device on both sides. What is documented where nothing ran is told apart, as "likely".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Count, F, Max, Min, Q, QuerySet

from kb.choices import Outcome, Verdict
from kb.environments.environment import Environment
from kb.findings.results import JUDGED
from kb.models import Finding
from kb.models.finding import FindingQuerySet
from kb.releases import installed
from kb.releases.documented import Facts, answers, facts_of_all
from kb.releases.installed import Narrowed
from kb.releases.sides import Side
from kb.search.index.generation import Generation, current_generation
from kb.versions.ranges import AFFECTED, NOT_AFFECTED

NEW, FIXED, DIFFERS = "new", "fixed", "differs"
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
BAD, GOOD = "bad", "good"
TURNS = {
    (BAD, GOOD): FIXED,
    (GOOD, BAD): NEW,
    (BAD, BAD): BAD_ON_BOTH,
    (GOOD, GOOD): GOOD_ON_BOTH,
}
OF_ANSWER = {AFFECTED: BAD, NOT_AFFECTED: GOOD}
OF_VERDICT = {Verdict.BUG_PRESENT.value: BAD, Verdict.BUG_ABSENT.value: GOOD}
LIKELY = {(BAD, GOOD): LIKELY_FIXED, (GOOD, BAD): LIKELY_NEW}
KEPT = 16
# Some 2 MB each with 10,000 records.
KEPT_BUILDS = 8
Key = tuple[str, str, str]


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
    kind: str


@dataclass(frozen=True)
class Judged:
    """What runs show. `turns`: by record; `kinds`: only of those judged on both."""

    turns: Mapping[str, tuple[Turn, ...]]
    kinds: Mapping[str, str]
    changed: list[Item]


@dataclass(frozen=True)
class Comparison:
    """`kinds`: each record that counts -> how it stands, NOT_TESTED included."""

    before: Side
    after: Side
    device: str
    kinds: Mapping[str, str]
    items: list[Item]
    # Of those not tested on both: judged on the one, on the other.
    only_before: int
    only_after: int
    narrowed: Narrowed | None

    @property
    def counts(self) -> dict[str, int]:
        """Records by how they stand; and of the other changes, how many there are."""
        found = dict.fromkeys((*STANDING_OF_A_RECORD, NOT_TESTED), 0)
        for kind in self.kinds.values():
            found[kind] += 1
        same = found[BAD_ON_BOTH] + found[GOOD_ON_BOTH]
        others = dict.fromkeys(CHANGES[2:5] + CHANGES[6:], 0)
        for item in self.items:
            if item.kind in others:
                others[item.kind] += 1
        return {**found, "same": same, **others}

    @property
    def is_tested(self) -> bool:
        """Whether any record was judged on both sides."""
        return any(kind != NOT_TESTED for kind in self.kinds.values())

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
    turns = {key: judged.turns.get(key, ()) for key in untested}
    items = [
        *(item for item in judged.changed if item.record in facts),
        *likely(turns, facts, before, after),
    ]
    return Comparison(
        before=before,
        after=after,
        device=device,
        kinds=kinds,
        items=sorted(items, key=lambda item: (CHANGES.index(item.kind), item)),
        only_before=sum(any(turn.before for turn in row) for row in turns.values()),
        only_after=sum(any(turn.after for turn in row) for row in turns.values()),
        narrowed=None,
    )


def standing_of(turns: tuple[Turn, ...]) -> str:
    if len(turns) == 1:
        return turns[0].kind
    kinds = {turn.kind for turn in turns}
    return next((kind for kind in STANDING_OF_A_RECORD if kind in kinds), NOT_TESTED)


def likely(
    turns: Mapping[str, tuple[Turn, ...]],
    facts: Mapping[str, Facts],
    before: Side,
    after: Side,
) -> Iterator[Item]:
    """Where a side was not run: what documents say, unless the other side's run
    says that they err.
    """
    said = answers(before.env), answers(after.env)
    for key, several in turns.items():
        documented = [OF_ANSWER.get(side(facts[key]).answer, "") for side in said]
        kind = LIKELY.get((documented[0], documented[1]))
        if kind and not contradicted(documented, several):
            yield Item(kind, key)


def contradicted(documented: list[str], turns: Iterable[Turn]) -> bool:
    return any(
        ran and ran != said
        for turn in turns
        for ran, said in zip((turn.before, turn.after), documented, strict=True)
    )


# --- what the database is asked ------------------------------------------------------
@lru_cache(maxsize=KEPT)
def judged_on(
    generation: Generation,
    before: tuple[str, ...],
    after: tuple[str, ...],
    device: str = "",
) -> Judged:
    """Cached: not to be modified."""
    turns: dict[str, tuple[Turn, ...]] = {}
    for turn in turns_between(generation, before, after, device):
        turns[turn.record] = (*turns.get(turn.record, ()), turn)
    kinds = {key: standing_of(several) for key, several in turns.items()}
    every = [turn for several in turns.values() for turn in several]
    beside = [
        item
        for item in (
            *workarounds_between(before, after, device),
            *behaviour_between(before, after, device),
        )
        if any(is_same(turn, item) for turn in turns.get(item.record, ()))
    ]
    changed = [
        Item(turn.kind, turn.record, turn.repro, turn.device)
        for turn in every
        if turn.kind in (NEW, FIXED, DIFFERS)
    ]
    return Judged(
        turns,
        {key: kind for key, kind in kinds.items() if kind != NOT_TESTED},
        [*changed, *beside],
    )


def is_same(turn: Turn, item: Item) -> bool:
    """Whether an item is of this repro, and its verdict did not change."""
    own = turn.repro == item.repro and turn.device == item.device
    return own and turn.kind in (BAD_ON_BOTH, GOOD_ON_BOTH)


def turns_between(
    generation: Generation,
    before: tuple[str, ...],
    after: tuple[str, ...],
    device: str,
) -> Iterator[Turn]:
    first, last = side_of(generation, before), side_of(generation, after)
    for key in first.keys() | last.keys():
        if not device or key[2] == device:
            shown = first.get(key, ""), last.get(key, "")
            yield Turn(*key, *shown, kind_of(*shown))


def side_of(generation: Generation, builds: tuple[str, ...]) -> Mapping[Key, str]:
    """Bad, good, or where builds of the side do not agree, that they differ."""
    verdicts = [verdicts_on(generation, build) for build in builds]
    if len(verdicts) == 1:
        return verdicts[0]
    found: dict[Key, str] = {}
    for of_build in verdicts:
        for key, answer in of_build.items():
            found[key] = answer if found.get(key, answer) == answer else DIFFERS
    return found


@lru_cache(maxsize=KEPT_BUILDS)
def verdicts_on(generation: Generation, build: str) -> Mapping[Key, str]:
    """What runs of each repro on this build show. Cached: not to be modified.

    Grouping here takes less time than in SQLite, and one build serves several pairs.
    """
    rows = of_sides((build,), (), "").triggers().filter(verdict__in=JUDGED)
    keys = rows.values_list("record_id", "repro", "device_class", "verdict")
    return {(key, repro, on): OF_VERDICT[shown] for key, repro, on, shown in keys}


def kind_of(before: str, after: str) -> str:
    if not (before and after):
        return NOT_TESTED
    return TURNS.get((before, after), DIFFERS)


def workarounds_between(
    before: tuple[str, ...], after: tuple[str, ...], device: str
) -> Iterator[Item]:
    """By runs against the bug; where builds of a side differ, it does not help."""
    rows = of_sides(before, after, device).filter(
        # For the index, which SQLite does not use for a prefix; "w" is the last letter
        # that a check begins with, in any order of letters.
        check_name__gte="workaround",
        check_name__lt="x",
        check_name__startswith="workaround_",
        verdict=Verdict.BUG_PRESENT,
        outcome__in=(Outcome.BUG, Outcome.CLEAN),
    )
    seen = {
        f"{outcome}_{name}": counted(builds, outcome=outcome)
        for name, builds in (("before", before), ("after", after))
        for outcome in (Outcome.BUG, Outcome.CLEAN)
    }
    ceased = Q(bug_before=0, clean_before__gt=0, bug_after__gt=0)
    began = Q(bug_before__gt=0, bug_after=0, clean_after__gt=0)
    keys = ("record_id", "repro", "device_class", "check_name")
    for row in grouped(rows, *keys, **seen).filter(ceased | began):
        yield Item(BEGINS if row[4] else CEASES, *row[:4])


def behaviour_between(
    before: tuple[str, ...], after: tuple[str, ...], device: str
) -> Iterator[Item]:
    """Triggers that said one thing on all builds before, another on all after."""
    rows = of_sides(before, after, device).filter(said__isnull=False)
    first, last = Q(build__in=(*before, "")), Q(build__in=(*after, ""))
    said = {
        "before": Min("said", filter=first),
        "before_too": Max("said", filter=first),
        "after": Min("said", filter=last),
        "after_too": Max("said", filter=last),
    }
    keys = ("record_id", "repro", "device_class")
    settled = Q(before=F("before_too"), after=F("after_too"))
    for row in grouped(rows, *keys, **said).filter(settled & ~Q(before=F("after"))):
        yield Item(BEHAVIOUR, *row[:3])


def of_sides(
    before: tuple[str, ...], after: tuple[str, ...], device: str
) -> FindingQuerySet:
    rows = Finding.objects.standing().of_the_bug()
    rows = rows.filter(build__in={*before, *after}).order_by()
    return rows.filter(device_class=device) if device else rows


def counted(builds: tuple[str, ...], **wanted: str) -> Count:
    # A condition that nothing meets would be no condition at all.
    return Count("pk", filter=Q(build__in=builds or ("",), **wanted))


def grouped(rows: QuerySet[Finding], *keys: str, **seen: Any) -> QuerySet[Any, Any]:
    """A row for each group: its keys, then what was seen in it, in this order."""
    return rows.values_list(*keys).annotate(**seen)
