"""Builds, workers and evidence over REST."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb.api.endpoint import (
    IMMUTABLE,
    Endpoint,
    LangQuery,
    answer,
    operation,
    revalidated,
)
from kb.api.paging import PageQuery, listing
from kb.problems import Problem
from runner.api.evidence_shape import EvidenceSerializer
from runner.api.serializers import (
    BuildPageSerializer,
    EvidencePageSerializer,
    EvidenceReceivedSerializer,
    WorkerPageSerializer,
)
from runner.evidence.exchange import receive_evidence
from runner.evidence.store import EvidenceRefused
from runner.models import Build, Evidence, Worker
from runner.models.token import Token
from runner.runs import fleet
from runner.runs.throttle import Quota

# Of NAN-0002 on 2.13.0-cpu, as the repository ships it.
EXAMPLE = "sha256:a041f449fb2f84c944256c10ef3dc90e37f684900d8917b796e4b15ae72ea97b"
DIGEST = OpenApiParameter(
    "digest",
    location=OpenApiParameter.PATH,
    description="sha256:…, as runs and claims name it.",
    examples=[OpenApiExample("evidence", EXAMPLE)],
)


class BuildList(Endpoint):
    @operation(
        "list_builds",
        {200: BuildPageSerializer},
        query=PageQuery,
        problems=["not_found"],
        tags=["builds"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Every torch build this site knows, installed somewhere or not."""
        rows = Build.objects.prefetch_related("installations")
        return listing(request, query, rows, ("slug",), BuildPageSerializer)


class WorkerList(Endpoint):
    @operation(
        "list_workers",
        {200: WorkerPageSerializer},
        query=PageQuery,
        problems=["not_found"],
        tags=["builds"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Workers and the queues each serves."""
        online = fleet.online_workers().filter(pk=OuterRef("pk"))
        rows = Worker.objects.annotate(online=Exists(online))
        return listing(request, query, rows, ("name",), WorkerPageSerializer)


class EvidenceQuery(PageQuery):
    record = serializers.CharField(max_length=8, required=False)
    build = serializers.CharField(max_length=61, required=False)


class EvidenceList(Endpoint):
    @operation(
        "list_evidence",
        {200: EvidencePageSerializer},
        query=EvidenceQuery,
        problems=["not_found"],
        tags=["evidence"],
    )
    def get(self, request: Request, query: dict[str, Any]) -> Response:
        """Evidence, newest first."""
        asked = {"record_id": query.get("record"), "build_slug": query.get("build")}
        rows = Evidence.objects.defer("body")
        rows = rows.filter(**{name: said for name, said in asked.items() if said})
        newest = ("-started_at", "digest")
        return listing(request, query, rows, newest, EvidencePageSerializer)

    @operation(
        "submit_evidence",
        {200: EvidenceReceivedSerializer, 201: EvidenceReceivedSerializer},
        query=LangQuery,
        reads_body=EvidenceSerializer,
        problems=["forbidden", "evidence_refused", "throttled"],
        tags=["evidence"],
    )
    def post(self, request: Request, query: dict[str, Any]) -> Response:
        """Send evidence of a run of your own: 201 new, 200 known already.

        It is judged again from its observations. Its origin becomes the token's name.
        """
        assert isinstance(request.auth, Token)  # noqa: S101 - runner.api.rules
        sent = Evidence.objects.filter(origin=request.auth.name)
        if wait_s := Quota.of(sent, "added_at", settings.EVIDENCE_PER_HOUR).wait_s:
            said = _("This token has reached its limit for this hour.")
            raise Problem("throttled", said, wait=wait_s)
        try:
            sent_by = request.auth.name, request.auth.user.get_username()
            evidence = receive_evidence(request.body, *sent_by)
        except RequestDataTooBig as error:
            raise Problem("too_large", str(error)) from error
        except EvidenceRefused as error:
            raise refused(error) from error
        status = 201 if evidence.created else 200
        where = reverse("api-evidence-detail", args=[evidence.digest])
        headers = {"Location": where}
        return answer(
            query, EvidenceReceivedSerializer, evidence, status=status, headers=headers
        )


def refused(error: EvidenceRefused) -> Problem:
    code = getattr(error, "code", "evidence_refused")
    if code == "too_large":
        return Problem("too_large", str(error))
    if code == "not_json":
        return Problem("malformed", str(error))
    errors = [{"pointer": "/", "code": code, "detail": str(error)}]
    return Problem("evidence_refused", str(error), errors=errors)


class EvidenceDetail(Endpoint):
    @operation(
        "get_evidence",
        {200: EvidenceSerializer},
        parameters=[DIGEST],
        problems=["unknown_evidence"],
        tags=["evidence"],
    )
    def get(self, request: Request, digest: str, query: dict[str, Any]) -> Any:
        """The evidence object itself, by digest; it never changes."""
        rows = Evidence.objects.filter(digest=digest)
        if not rows.exists():
            raise Problem("unknown_evidence", _("There is no evidence %s.") % digest)

        def make() -> Response:
            return Response(rows.get().body, headers={"Cache-Control": IMMUTABLE})

        return revalidated(request, [digest], make)
