"""Filtering by facets, with counts of each value.

Verdicts on a build come from findings; all else a record's standing has
(kb.models.standing), which changes with records, claims and findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.utils.translation import gettext_lazy as _

from kb.choices import Fidelity, Verdict
from kb.models import Finding, TestedBuild
from kb.search.index.generation import Generation, current_generation
from kb.search.index.inverted import Facets

UNTESTED = "untested"
MODEL = "model"
VERIFIED = "verified"
# With their names, in the order they are shown.
FACETS = {
    "verdict": _("On this build"),
    "symptom": _("Symptom"),
    "component": _("Component"),
    "package": _("Package"),
    "device": _("Device"),
    "upstream": _("Upstream"),
    "workaround": _("Workaround"),
}


def most_tested(builds: Iterable[TestedBuild]) -> str:
    """The build on which most records have a verdict; of equals the newest."""
    newest_first = reversed(list(builds))
    best = max(newest_first, key=lambda build: build.records, default=None)
    return best.slug if best else ""


Verdicts = Mapping[str, str]


def verdicts_on(build: str) -> Verdicts:
    """Each record's verdict on a build: the bug, where any repro shows it, else the
    newest; one of the bug itself before a model's.

    Cached until a finding changes: the caller must not modify it.
    """
    return verdicts_in(current_generation(), build)


@lru_cache(maxsize=8)
def verdicts_in(generation: Generation, build: str) -> Verdicts:
    rows = Finding.objects.fresh().triggers().filter(build=build)
    newest = rows.order_by("observed_at").values_list(
        "record_id", "fidelity", "verdict"
    )
    verdicts: dict[str, str] = {}
    for record, fidelity, verdict in newest:
        if fidelity != Fidelity.MECHANISM_MODEL:
            if verdicts.get(record) != Verdict.BUG_PRESENT:
                verdicts[record] = verdict
        elif verdicts.get(record, MODEL) == MODEL:
            verdicts[record] = MODEL
    return verdicts


@dataclass(frozen=True)
class Narrowed:
    """The records that pass, in their order, and how many would pass with each value.

    A facet's own choice does not lower its counts: within a facet any value will do.
    """

    records: list[str]
    counts: dict[str, Counter[str]]


def narrow(
    records: Iterable[tuple[str, Facets]],
    verdicts: Verdicts,
    chosen: Mapping[str, list[str]],
) -> Narrowed:
    """Within a facet any chosen value, across facets all."""
    required = {name: set(values) for name, values in chosen.items() if values}
    counts: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    passing = []
    for record, facets in records:
        values = {**facets, "verdict": [verdicts.get(record, UNTESTED)]}
        missed = [
            name
            for name, any_of in required.items()
            if any_of.isdisjoint(values.get(name, ()))
        ]
        if not missed:
            passing.append(record)
        # A choice within a facet does not count against its other values.
        for name in missed if len(missed) == 1 else () if missed else FACETS:
            counts[name].update(values.get(name, ()))
    return Narrowed(passing, counts)
