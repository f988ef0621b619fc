"""The search page: records by words, or straight to the record an id names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from django.http import QueryDict
from django.utils.translation import gettext as _

from kb.languages import current_lang
from kb.lookup import symptoms
from kb.models import Record, Symptom
from kb.pages.facets import Facet, Option, chosen_build, chosen_facets, facets
from kb.pages.paging import Window, window
from kb.search.ranking.filters import UNTESTED, Verdicts, verdicts_on
from kb.search.ranking.listing import SORTS, Hit, Listing, hits, listing
from kb.search.reading.query import MAX_QUERY

PER_PAGE = 20
RECORD_ID = re.compile(r"NAN-?(\d{1,4})", re.IGNORECASE)


@dataclass(frozen=True)
class SearchPage:
    """`window`: of the hits with the filters; `total`: how many without them."""

    query: str
    status: int = 200
    too_long: bool = False
    target: Record | None = None
    hits: list[Hit] = field(default_factory=list)
    window: Window = field(default_factory=lambda: window("", 0, PER_PAGE))
    total: int = 0
    unknown: list[str] = field(default_factory=list)
    # Before the hits of the first page.
    symptoms: list[Symptom] = field(default_factory=list)
    facets: list[Facet] = field(default_factory=list)
    build: str = ""
    builds: list[str] = field(default_factory=list)
    sorts: list[Option] = field(default_factory=list)
    is_filtered: bool = False

    @property
    def is_asked(self) -> bool:
        return bool(self.query) or self.is_filtered


def build(parameters: QueryDict) -> SearchPage:
    query = parameters.get("q", "").replace("\x00", " ").strip()
    if len(query) > MAX_QUERY:
        return SearchPage(query[:MAX_QUERY], status=400, too_long=True)
    named = RECORD_ID.fullmatch(query)
    if named:
        # No words, which "nan" would be, of a number that no record has.
        return SearchPage(query, target=numbered(int(named[1])))
    chosen = chosen_facets(parameters)
    page = SearchPage(query, is_filtered=bool(chosen))
    return answer(page, parameters, chosen) if page.is_asked else page


def numbered(number: int) -> Record | None:
    return Record.objects.addressable().filter(id=f"NAN-{number:04d}").first()


def answer(
    page: SearchPage, parameters: QueryDict, chosen: dict[str, list[str]]
) -> SearchPage:
    on, builds = chosen_build(parameters)
    sort = parameters.get("sort", "")
    sort = sort if sort in SORTS else SORTS[0]
    verdicts = verdicts_on(on)
    results = listing(page.query, chosen, verdicts, sort)
    page_window = window(parameters.get("page", ""), len(results.found), PER_PAGE)
    return replace(
        page,
        hits=hits_on_page(results, page_window, verdicts),
        window=page_window,
        total=results.total,
        unknown=results.unknown,
        symptoms=symptoms.of_words(page.query) if page_window.first == 1 else [],
        facets=list(facets(results.counts, chosen)),
        build=on,
        builds=builds,
        sorts=sort_options(sort),
    )


def hits_on_page(
    results: Listing, page_window: Window, verdicts: Verdicts
) -> list[Hit]:
    """One page of hits, each with its verdict on the build."""
    rows = hits(results.found[page_window.rows], results.query, current_lang())
    return [replace(hit, verdict=verdicts.get(hit.record.pk, UNTESTED)) for hit in rows]


def sort_options(sort: str) -> list[Option]:
    labels = (_("relevance"), _("newest"), _("id"))
    return [
        Option(value, label, 0, value == sort)
        for value, label in zip(SORTS, labels, strict=True)
    ]
