"""Narrowing what was found: facets with counts, and the ones chosen.

Verdicts on a build come from findings; all else a record's standing has
(kb.models.standing), which changes with records, claims and findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kb.choices import Fidelity
from kb.models import Finding, TestedBuild
from kb.search.index.generation import Generation, current_generation
from kb.versions import order

UNTESTED = "untested"
MODEL = "model"
VERIFIED = "verified"
# In the order they are shown.
NAMES = (
    "verdict",
    "symptom",
    "component",
    "package",
    "device",
    "upstream",
    "workaround",
)
Values = Mapping[str, tuple[str, ...]]
Found = tuple[str, str]  # a record and its facets as its standing has them


def tested_builds() -> list[TestedBuild]:
    """Builds with a fresh verdict on a published record, newest version first."""
    rows = TestedBuild.objects.all()
    return sorted(
        rows, key=lambda row: order.build_order(row.raw, row.slug), reverse=True
    )


def most_tested(builds: Iterable[TestedBuild]) -> str:
    """The build on which most records have a verdict; of equals the newest."""
    best = max(builds, key=lambda build: build.records, default=None)
    return best.slug if best else ""


@dataclass
class Facts:
    """What findings say of every record: the verdicts on one build."""

    verdicts: dict[str, str] = field(default_factory=dict)


def read_facts(build: str) -> Facts:
    return Facts(verdicts_on(build))


def verdicts_on(build: str) -> dict[str, str]:
    """The newest verdict on a build; of the bug itself before one of a model.

    Not to be changed: it is kept until a finding changes.
    """
    return verdicts_in(current_generation(), build)


@lru_cache(maxsize=8)
def verdicts_in(generation: Generation, build: str) -> dict[str, str]:
    rows = Finding.objects.fresh().triggers().filter(build=build)
    newest = rows.order_by("observed_at").values_list(
        "record_id", "fidelity", "verdict"
    )
    found: dict[str, str] = {}
    for record, fidelity, verdict in newest:
        if fidelity != Fidelity.MECHANISM_MODEL:
            found[record] = verdict
        elif found.get(record, MODEL) == MODEL:
            found[record] = MODEL
    return found


@lru_cache(maxsize=20_000)
def stored_values(facets: str) -> Values:
    """What a record can be narrowed by, by name. Not to be changed."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in facets.strip("\n").split("\n"):
        name, _colon, value = line.partition(":")
        found[name].append(value)
    return {name: tuple(values) for name, values in found.items()}


@dataclass(frozen=True)
class Narrowed:
    """The records kept, in the order they came, and how many each value would keep.

    A facet's own choice does not lower its counts: within a facet any value will do.
    """

    records: list[str]
    counts: dict[str, Counter[str]]


def narrow(
    found: Iterable[Found], facts: Facts, chosen: Mapping[str, list[str]]
) -> Narrowed:
    """Within a facet any chosen value, across facets all."""
    wanted = {name: set(values) for name, values in chosen.items() if values}
    # Thousands of records have a few dozen different sets of values.
    verdicts = facts.verdicts
    sets = [
        (record, (facets, verdicts.get(record, UNTESTED))) for record, facets in found
    ]
    counts: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
    kept = set()
    for key, count in Counter(key for _record, key in sets).items():
        values = values_of(key)
        missed = [
            name
            for name, any_of in wanted.items()
            if any_of.isdisjoint(values.get(name, ()))
        ]
        if not missed:
            kept.add(key)
        # A choice within a facet does not count against its other values.
        for name in missed if len(missed) == 1 else () if missed else NAMES:
            for value in values.get(name, ()):
                counts[name][value] += count
    return Narrowed([record for record, key in sets if key in kept], counts)


@lru_cache(maxsize=20_000)
def values_of(key: tuple[str, str]) -> Values:
    facets, verdict = key
    return {**stored_values(facets), "verdict": (verdict,)}
