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

from kb.api.endpoint import Endpoint, LangQuery, answer, operation
from kb.api.paging import PageQuery, following, page, read_cursor
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
    FACETS,
    MODEL,
    UNTESTED,
    VERIFIED,
    most_tested,
    verdicts_on,
)
from kb.search.ranking.listing import SORTS, listing
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


def several(child: serializers.Field[Any, Any, Any, Any]) -> serializers.ListField:
    """A parameter that may be repeated: any of its values."""
    return serializers.ListField(child=child, required=False, max_length=20)


class RecordQuery(PageQuery):
    q = serializers.CharField(max_length=MAX_QUERY, required=False, allow_blank=True)
    symptom_class = several(serializers.ChoiceField(choices=SymptomClass.choices))
    upstream = several(serializers.ChoiceField(choices=Upstream.choices))
    component = several(serializers.CharField(max_length=80))
    package = several(serializers.CharField(max_length=80))
    device = several(serializers.ChoiceField(choices=DeviceClass.choices))
    verdict = several(
        serializers.ChoiceField(choices=[*Verdict.values, UNTESTED, MODEL])
    )
    workaround = several(serializers.ChoiceField(choices=[VERIFIED]))
    build = serializers.CharField(
        max_length=61, required=False, help_text="whose verdicts `verdict` means"
    )
    sort = serializers.ChoiceField(choices=SORTS, required=False)
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
        found = find_records(query)
        # Without records that came after the first page.
        newest, start = read_cursor(request, query) or (max(found, default=""), 0)
        found = [record for record in found if record <= newest]
        end = start + query["limit"]
        rows = listed(Record.objects.visible()).in_bulk(found[start:end])
        items = [rows[pk] for pk in found[start:end] if pk in rows]
        more = following(request, [newest, end]) if end < len(found) else None
        return page(query, RecordPageSerializer, items, more, total=len(found))


def find_records(query: dict[str, Any]) -> list[str]:
    """Ids in the order of the search page."""
    builds = tested_builds()
    if "build" in query and query["build"] not in [row.slug for row in builds]:
        said = _("No record was tested on the build %s.") % query["build"]
        errors = [{"pointer": "/build", "code": "unknown_build", "detail": said}]
        raise Problem("unknown_build", said, errors=errors)
    chosen = {name: query[name] for name in FACETS if name in query}
    if "symptom_class" in query:
        chosen["symptom"] = query["symptom_class"]
    verdicts = verdicts_on(query.get("build") or most_tested(builds))
    sort = query.get("sort", SORTS[0])
    found = listing(query.get("q", ""), chosen, verdicts, sort).found
    ids = [record for record, _score in found]
    if "modified_since" not in query:
        return ids
    rows = Record.objects.filter(modified__gte=query["modified_since"])
    recent = set(rows.values_list("pk", flat=True))
    return [pk for pk in ids if pk in recent]


def listed(rows: RecordQuerySet) -> QuerySet[Record]:
    """As a list shows them: without articles, with the verdicts that results count."""
    verdicts = Finding.objects.fresh().triggers().of_the_bug()
    return rows.without_prose().prefetch_related(Prefetch("findings", verdicts))


class RecordDetail(Endpoint):
    @operation(
        "get_record",
        {200: RecordSerializer, 304: None},
        query=LangQuery,
        parameters=[RECORD_ID],
        problems=["unknown_record"],
        tags=["records"],
    )
    def get(self, request: Request, record_id: str, query: dict[str, Any]) -> Any:
        """One full record. `publication` tells whether it is withdrawn."""
        record = get_record(record_id, "repros", "claims", "findings")
        return answer(query, RecordSerializer, record)


class RecordMatrix(Endpoint):
    @operation(
        "get_record_matrix",
        {200: MatrixSerializer, 304: None},
        query=LangQuery,
        parameters=[RECORD_ID],
        problems=["unknown_record"],
        tags=["records"],
    )
    def get(self, request: Request, record_id: str, query: dict[str, Any]) -> Any:
        """The record's verdict on each tested build, oldest version first."""
        return answer(query, MatrixSerializer, get_record(record_id, "findings"))


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
