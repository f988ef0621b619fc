"""The knowledge base over REST: records and contradictions."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.api.endpoint import Endpoint, LangQuery, answer, operation, revalidated
from kb.api.fields import Choice
from kb.api.paging import PageQuery, following, listing, page, read_cursor
from kb.api.serializers import (
    ContradictionPageSerializer,
    MatrixSerializer,
    RecordPageSerializer,
    RecordSerializer,
)
from kb.choices import DeviceClass, SymptomClass, Upstream, Verdict
from kb.findings.contradiction_list import newest_record, step
from kb.models import Finding, Record
from kb.models.record import RecordQuerySet
from kb.problems import Problem
from kb.search.ranking.filters import (
    MODEL,
    UNTESTED,
    VERIFIED,
    most_tested,
    verdicts_on,
)
from kb.search.ranking.listing import SORTS, listing as search_listing
from kb.search.reading.query import MAX_QUERY
from kb.versions.order import tested_builds

RECORD_ID = OpenApiParameter(
    "record_id",
    location=OpenApiParameter.PATH,
    description="Such as NAN-0002.",
    examples=[OpenApiExample("record", "NAN-0002")],
)


def get_record(record_id: str, *along: str) -> Record:
    """With the rows of its relations `along`."""
    rows = Record.objects.addressable().prefetch_related(*along)
    record = rows.filter(id=record_id.upper()).first()
    if record is None:
        raise Problem("unknown_record", _("There is no record %s.") % record_id)
    return record


def version_of(record_id: str) -> tuple[object, ...]:
    """For ETags: what decides all that is said of a record, far cheaper than that."""
    rows = Record.objects.addressable().filter(id=record_id.upper())
    row = rows.values_list("id", "modified").first()
    if row is None:
        raise Problem("unknown_record", _("There is no record %s.") % record_id)
    pk, *version = row
    seen = Finding.objects.filter(record=pk).order_by("pk")
    return (*version, *seen.values_list("pk", "evidence", "stale"))


# Query parameter -> facet of a search; some are filters of the plain list as well.
FACETS = {
    "symptom_class": "symptom",
    "upstream": "upstream",
    "component": "component",
    "package": "package",
    "device": "device",
    "verdict": "verdict",
    "workaround": "workaround",
}
SEARCHES = {"q", "sort", "build", "package", "device", "verdict", "workaround"}


def several(child: serializers.Field[Any, Any, Any, Any]) -> serializers.ListField:
    """A parameter that may be repeated: any of its values."""
    return serializers.ListField(child=child, required=False, max_length=20)


class RecordQuery(PageQuery):
    q = serializers.CharField(max_length=MAX_QUERY, required=False, allow_blank=True)
    symptom_class = several(Choice(choices=SymptomClass.choices))
    upstream = several(Choice(choices=Upstream.choices))
    component = several(serializers.CharField(max_length=80))
    package = several(serializers.CharField(max_length=80))
    device = several(Choice(choices=DeviceClass.choices))
    verdict = several(Choice(choices=[*Verdict.values, UNTESTED, MODEL]))
    workaround = several(Choice(choices=[VERIFIED]))
    build = serializers.CharField(
        max_length=61, required=False, help_text="whose verdicts `verdict` means"
    )
    sort = Choice(choices=SORTS, required=False)
    modified_since = serializers.DateTimeField(
        required=False, help_text="records whose text or facts changed then or later"
    )


class RecordList(Endpoint):
    @operation(
        "list_records",
        {200: RecordPageSerializer},
        query=RecordQuery,
        problems=["not_found", "unknown_build"],
        tags=["records"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Published records by id; with `q`, as the search page finds them."""
        if SEARCHES & set(query):
            return search_results(request, query)
        rows = listed(filtered(query))
        return listing(request, query, rows, ("id",), RecordPageSerializer)


def search_results(request: Request, query: dict[str, Any]) -> Response:
    """One page of a search, without records added since the first; their number."""
    found = find_records(query)
    newest, start = read_cursor(request, query) or (max(found, default=""), 0)
    found = [record for record in found if record <= newest]
    if "modified_since" in query:
        recent = set(
            filtered({"modified_since": query["modified_since"]}).values_list(
                "pk", flat=True
            )
        )
        found = [record for record in found if record in recent]
    end = start + query["limit"]
    rows = listed(Record.objects.visible())
    rows_by_id = rows.in_bulk(found[start:end])
    items = [rows_by_id[pk] for pk in found[start:end] if pk in rows_by_id]
    more = following(request, [newest, end]) if end < len(found) else None
    return page(query, RecordPageSerializer, items, more, total=len(found))


def find_records(query: dict[str, Any]) -> list[str]:
    """Ids in the order of the search page."""
    builds = tested_builds()
    if "build" in query and query["build"] not in [row.slug for row in builds]:
        said = _("No record was tested on the build %s.") % query["build"]
        errors = [{"pointer": "/build", "code": "unknown_build", "detail": said}]
        raise Problem("unknown_build", said, errors=errors)
    chosen = {facet: query[name] for name, facet in FACETS.items() if name in query}
    verdicts = verdicts_on(query.get("build") or most_tested(builds))
    sort = query.get("sort", SORTS[0])
    found = search_listing(query.get("q", ""), chosen, verdicts, sort).found
    return [record for record, _score in found]


def listed(rows: RecordQuerySet) -> QuerySet[Record]:
    """As a list shows them: without articles, with the verdicts that results count."""
    verdicts = Finding.objects.fresh().triggers().of_the_bug()
    return rows.without_prose().prefetch_related(Prefetch("findings", verdicts))


def filtered(query: dict[str, Any]) -> RecordQuerySet:
    rows = Record.objects.visible()
    for name in ("symptom_class", "upstream"):
        if name in query:
            rows = rows.filter(**{f"{name}__in": query[name]})
    if "modified_since" in query:
        rows = rows.filter(modified__gte=query["modified_since"])
    wanted = set(query.get("component", ()))
    if wanted:
        listed = rows.values_list("id", "components")
        rows = rows.filter(id__in=[pk for pk, has in listed if wanted & set(has)])
    return rows


class RecordDetail(Endpoint):
    @operation(
        "get_record",
        {200: RecordSerializer},
        query=LangQuery,
        parameters=[RECORD_ID],
        problems=["unknown_record"],
        tags=["records"],
    )
    def get(self, request: Request, record_id: str, query: dict[str, Any]) -> Any:
        """One full record. `publication` tells whether it is withdrawn."""

        def make() -> Response:
            record = get_record(record_id, "repros", "claims", "findings")
            return answer(query, RecordSerializer, record)

        return revalidated(request, version_of(record_id), make)


class RecordMatrix(Endpoint):
    @operation(
        "get_record_matrix",
        {200: MatrixSerializer},
        query=LangQuery,
        parameters=[RECORD_ID],
        problems=["unknown_record"],
        tags=["records"],
    )
    def get(self, request: Request, record_id: str, query: dict[str, Any]) -> Any:
        """The record's verdict on each tested build, oldest version first."""

        def make() -> Response:
            return answer(query, MatrixSerializer, get_record(record_id, "findings"))

        return revalidated(request, version_of(record_id), make)


class ContradictionList(Endpoint):
    @operation(
        "list_contradictions",
        {200: ContradictionPageSerializer},
        query=PageQuery,
        problems=["not_found"],
        tags=["claims"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Documented ranges, fixes and claims that runs contradict.

        Pages hold the contradictions of whole records: sometimes more than `limit`
        of them, sometimes fewer although there is a `next`.
        """
        newest, after = read_cursor(request, query) or (newest_record(), "")
        found = step(after, query["limit"], newest)
        items = [
            {**item, "of": group.record}
            for group in found.groups
            for item in group.items
        ]
        more = following(request, [newest, found.after]) if found.is_more else None
        return page(query, ContradictionPageSerializer, items, more)


class Nowhere(Endpoint):
    """Every other address below /api/v1/: a problem document, not a page."""

    schema = None
    permission_classes = []

    def get(self, request: Request, **kwargs: Any) -> Response:
        raise Problem("not_found", _("No such address: %s") % request.path)

    post = put = patch = delete = get
