"""All records in groups, with their verdicts on one build; the facets of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.http import QueryDict
from django.utils.translation import gettext as _

from kb.choices import Verdict
from kb.lookup import symptoms
from kb.models import Finding, Record, Standing, Symptom
from kb.pages.facets import Facet, chosen_build, chosen_facets, facets, value_label
from kb.pages.paging import Window, window
from kb.search.index.inverted import Facets, every_record
from kb.search.ranking.filters import Narrowed, narrow, verdicts_on

PER_PAGE = 50
GROUPINGS = ("symptom", "component", "package")
# The group of records that have none of these values.
REST = ""


@dataclass(frozen=True)
class Row:
    """A record and its newest fresh verdict on the chosen build, if any."""

    record: Record
    standing: Standing
    finding: Finding | None

    @property
    def first_good(self) -> str:
        return self.standing.first_good

    @property
    def has_workaround(self) -> bool:
        return bool(self.standing.facets["workaround"])


@dataclass(frozen=True)
class Group:
    """Some rows of a group, which has `size` of them on all pages."""

    label: str
    size: int
    rows: list[Row]


@dataclass(frozen=True)
class BrowsePage:
    build: str
    builds: list[str]
    group_by: str
    facets: list[Facet]
    groups: list[Group]
    window: Window
    total: int
    # Before the records of the first page, where nothing is filtered.
    symptoms: Sequence[Symptom] = ()


def build(query: QueryDict) -> BrowsePage:
    on, builds = chosen_build(query)
    group_by = query.get("group", "")
    group_by = group_by if group_by in GROUPINGS else GROUPINGS[0]
    chosen = chosen_facets(query)
    every = every_record()
    narrowed = narrow(every.items(), verdicts_on(on), chosen)
    placed, sizes = in_groups(narrowed, every, group_by)
    page_window = window(query.get("page", ""), len(placed), PER_PAGE)
    return BrowsePage(
        build=on,
        builds=builds,
        group_by=group_by,
        facets=list(facets(narrowed.counts, chosen)),
        groups=list(groups(placed[page_window.rows], sizes, group_by, on)),
        window=page_window,
        total=len(every),
        symptoms=() if chosen or page_window.first > 1 else widest_first(),
    )


def widest_first() -> list[Symptom]:
    """Symptoms by the number of their causes."""
    return sorted(symptoms.every(), key=lambda one: len(one.causes), reverse=True)


Placed = list[tuple[str, str]]  # group and record, in the order they are shown


def in_groups(
    narrowed: Narrowed, facets_of: dict[str, Facets], group_by: str
) -> tuple[Placed, Counter[str]]:
    """The largest group first, and in it records by id.

    Each record in one group only: a list that repeats records is hard to count.
    """
    placed = [
        (first_value(facets_of[record], group_by), record)
        for record in narrowed.records
    ]
    sizes = Counter(value for value, _record in placed)
    return sorted(placed, key=lambda row: (-sizes[row[0]], row[0], row[1])), sizes


def first_value(facets: Facets, name: str) -> str:
    return facets[name][0] if facets[name] else REST


def groups(
    shown: Placed, sizes: Counter[str], group_by: str, on: str
) -> Iterator[Group]:
    """The groups on this page, with the rows of it."""
    rows = rows_of([record for _value, record in shown], on)
    for value, members in groupby(shown, key=lambda row: row[0]):
        label = value_label(group_by, value) if value != REST else _("none named")
        yield Group(
            label,
            sizes[value],
            # One may have been deleted since the order was made.
            [rows[record] for _value, record in members if record in rows],
        )


def rows_of(ids: list[str], on: str) -> dict[str, Row]:
    records = Record.objects.select_related("standing").without_prose()
    verdicts = verdicts_of(ids, on)
    return {
        pk: Row(record, record.standing, verdicts.get(pk))
        for pk, record in records.in_bulk(ids).items()
    }


def verdicts_of(ids: Iterable[str], on: str) -> dict[str, Finding]:
    """The verdict on the build, as search counts it (`filters.verdicts_on`)."""
    rows = Finding.objects.fresh().triggers().filter(build=on, record__in=ids)
    return {row.record_id: row for row in sorted(rows, key=weight)}


def weight(row: Finding) -> tuple[bool, bool, datetime]:
    """More of the bug itself than of a model, of a repro that shows it, and newer."""
    shown = row.verdict == Verdict.BUG_PRESENT
    return not row.is_model, shown and not row.is_model, row.observed_at
