"""One release of torch: what it fixed and broke, what is documented, what is open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Case, Count, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast

from kb.choices import Verdict
from kb.findings.contradictions import FIXES_THAT_END_IT
from kb.findings.results import JUDGED
from kb.models import Finding, Flip, Record, Standing, TestedBuild
from kb.releases.comparison import Turn, judged_on
from kb.releases.sides import Side, releases, tested
from kb.releases.verdicts import BAD, GOOD, KEPT_BUILDS
from kb.search.index.generation import Generation, current_generation

TORCH = "torch"
ENDS, BEGINS = "ends", "begins"
# What runs show of a documented end or beginning: (which, before, here) -> word.
AGREES, CONTRADICTED, ON_REQUEST = "agrees", "contradicted", "on_request"
ALREADY, NOT_RUN = "already", "not_run"
# Of each list; a release of a large site has thousands.
SHOWN = 50


class Point(NamedTuple):
    """Of a release: records whose bug was reproduced, of those with a verdict."""

    release: str
    bad: int
    judged: int


@dataclass(frozen=True)
class Documented:
    """That a bug ends or begins with this release, and what runs show of it.

    `how`: the kind of the fix; "" where only a range says so. `before`, `here`: bad,
    good, differs or "" on the release before and on this one.
    """

    record: Record
    which: str
    how: str
    source: dict[str, Any]
    before: str
    here: str

    @property
    def shows(self) -> str:
        if not self.here or self.here not in (BAD, GOOD):
            return NOT_RUN
        as_documented = GOOD if self.which == ENDS else BAD
        if self.here != as_documented:
            avoided = self.which == ENDS and self.how and not self.ends_it
            return ON_REQUEST if avoided else CONTRADICTED
        return ALREADY if self.before == self.here else AGREES

    @property
    def ends_it(self) -> bool:
        """False where the bug is only avoided by default: a repro may ask for it."""
        return self.how in FIXES_THAT_END_IT


@dataclass(frozen=True)
class Release:
    """Lists have their first rows; `turned` counts flips by kind."""

    side: Side
    builds: list[TestedBuild]
    previous: Side | None
    next: Side | None
    turned: dict[str, int]
    fixed: list[Flip]
    broken: list[Flip]
    documented: list[Documented]
    unrun: int
    unrun_records: list[Record]
    curve: tuple[Point, ...]


def find(name: str) -> Release | None:
    """The release of this name, if anything was run on it."""
    builds = tested()
    known = releases(builds)
    if name not in known:
        return None
    side, names = known[name], list(known)
    at = names.index(name)
    previous = known[names[at - 1]] if at else None
    following = known[names[at + 1]] if at + 1 < len(names) else None
    generation = current_generation()
    turns = turning_in(side)
    unrun, first_unrun = unrun_on(generation, side.builds)
    shown = Record.objects.only("slug", "title_en", "title_zh")
    return Release(
        side=side,
        builds=[row for row in builds if row.slug in side.builds],
        previous=previous,
        next=following,
        turned=dict(turns.order_by().values_list("kind").annotate(Count("pk"))),
        fixed=first_of(turns.filter(kind="first_good")),
        broken=first_of(turns.filter(kind="first_bad")),
        documented=list(documented_of(generation, side, previous)),
        unrun=unrun,
        unrun_records=list(shown.filter(pk__in=first_unrun).order_by("pk")),
        curve=curve(generation),
    )


def first_of(rows: QuerySet[Flip]) -> list[Flip]:
    rows = rows.select_related("record").defer("record__html")
    return list(rows.order_by("record_id", "device_class")[:SHOWN])


def turning_in(side: Side) -> QuerySet[Flip]:
    """Where a verdict turns on this release, against the build judged before it."""
    rows = Flip.objects.filter(build__in=side.builds)
    return rows.exclude(before__in=side.builds)


@lru_cache(maxsize=KEPT_BUILDS)
def unrun_on(
    generation: Generation, builds: tuple[str, ...]
) -> tuple[int, tuple[str, ...]]:
    """Of how many published records the bug itself never ran here, and the first."""
    rows = Finding.objects.standing().triggers().of_the_bug().order_by()
    ran = set(rows.filter(build__in=builds).values_list("record_id", flat=True))
    ids = Standing.objects.order_by("pk").values_list("pk", flat=True)
    unrun = [key for key in ids if key not in ran]
    return len(unrun), tuple(unrun[:SHOWN])


# --- what documents say of it --------------------------------------------------------
def documented_of(
    generation: Generation, side: Side, previous: Side | None
) -> Iterator[Documented]:
    before = previous.builds if previous else ()
    records = list(naming(side.name))
    judged = judged_on(generation, before, side.builds)
    turns = judged.turns_of({record.pk for record in records})
    for record in records:
        sources = {source["id"]: source for source in record.sources}
        turn = most_telling(turns.get(record.pk, ()))
        for which, how, source in said_of(record, side.name):
            yield Documented(
                *(record, which, how, sources.get(source, {})),
                before=turn.before if turn else "",
                here=turn.after if turn else "",
            )


def naming(version: str) -> Iterable[Record]:
    """The first that name this version in a range or a fix, be it torch's or not."""
    rows = Record.objects.visible().only(
        *("slug", "title_en", "title_zh", "affected", "fixes", "sources")
    )
    rows = rows.annotate(
        ranges=Cast("affected", TextField()), ends=Cast("fixes", TextField())
    )
    named = f'"{version}"'
    found = rows.filter(Q(ranges__contains=named) | Q(ends__contains=named))
    return found.order_by("pk")[:SHOWN]


def said_of(record: Record, version: str) -> Iterator[tuple[str, str, str]]:
    """(ends or begins, kind of the fix or "", id of the source), each once."""
    ends = False
    for fix in record.fixes:
        if (fix["package"], fix["version"]) == (TORCH, version):
            ends = True
            yield ENDS, fix["kind"], fix["source"]
    for entry in record.affected:
        if entry["package"] != TORCH:
            continue
        for event in entry.get("events", []):
            if event.get("introduced") == version:
                yield BEGINS, "", entry["source"]
            if event.get("fixed") == version and not ends:
                yield ENDS, "", entry["source"]


def most_telling(turns: Iterable[Turn]) -> Turn | None:
    """Of a record's repros and devices the one that was judged on both, else here."""
    rank = {(True, True): 0, (False, True): 1, (True, False): 2}
    ordered = sorted(
        turns, key=lambda turn: rank.get((bool(turn.before), bool(turn.after)), 3)
    )
    return ordered[0] if ordered else None


# --- open bugs by release ------------------------------------------------------------
@lru_cache(maxsize=2)
def curve(generation: Generation) -> tuple[Point, ...]:
    """Every release that was tested, oldest first."""
    known = releases(tested())
    if not known:
        return ()
    rows = Finding.objects.standing().triggers().of_the_bug().order_by()
    rows = rows.filter(
        build__in=[slug for side in known.values() for slug in side.builds],
        verdict__in=JUDGED,
        record__in=Standing.objects.values("pk"),
    )
    counts = counted(rows.values_list(release_of_build(known)))
    return tuple(Point(name, *counts.get(name, (0, 0))) for name in known)


def release_of_build(known: Mapping[str, Side]) -> Case:
    whens = (
        When(build__in=side.builds, then=Value(name)) for name, side in known.items()
    )
    return Case(*whens, output_field=TextField())


def counted(rows: Any) -> dict[str, tuple[int, int]]:
    several = rows.annotate(
        bad=Count("record", distinct=True, filter=Q(verdict=Verdict.BUG_PRESENT)),
        judged=Count("record", distinct=True),
    )
    return {name: (bad, judged) for name, bad, judged in several}
