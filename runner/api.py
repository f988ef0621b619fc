"""Runs, builds, workers and evidence over REST."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kb import documents as kb_documents
from kb.api import (
    Endpoint,
    answer,
    check_choice,
    check_parameters,
    get_record,
    listing,
)
from kb.choices import DeviceClass, Verdict
from kb.languages import current_lang
from kb.models import Repro
from kb.problems import Problem
from kb.results import cells, timestamp
from runner import documents, ledger
from runner.models import Build, Evidence, Run, Worker
from runner.run_form import MAX_TRIALS, may_run, requester

LOG_PAGE = 1000
MAX_SEQ_DIGITS = 9
RETRY_AFTER_S = 30


def get_run(run_id: str) -> Run:
    try:
        key = UUID(run_id)
    except ValueError:
        raise Problem("unknown_run", _("%s is not a run's id.") % run_id) from None
    rows = Run.objects.select_related("repro__record", "evidence", "build")
    run = rows.filter(id=key).first()
    if run is None:
        raise Problem("unknown_run", _("There is no run %s.") % run_id)
    return run


class RunRequest(serializers.Serializer[Any]):
    record = serializers.CharField(max_length=8)
    repro = serializers.CharField(max_length=60, default="repro")
    build = serializers.CharField(max_length=61)
    device = serializers.ChoiceField(choices=DeviceClass.choices, default="cpu")
    trials = serializers.IntegerField(min_value=1, max_value=MAX_TRIALS, required=False)
    again = serializers.BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(self.initial_data) - set(self.fields))
        if unknown:
            raise serializers.ValidationError(
                dict.fromkeys(unknown, _("Unknown field."))
            )
        return attrs


def wanted_repro(record_id: str, name: str) -> Repro:
    repro = get_record(record_id).repros.filter(name=name).first()
    if repro is None:
        raise Problem(
            "unknown_repro",
            _("%(record)s has no repro named %(name)s.")
            % {"record": record_id, "name": name},
        )
    return repro


def wanted_build(slug: str) -> Build:
    build = Build.objects.filter(slug=slug).first()
    if build is None:
        raise Problem("unknown_build", _("There is no build %s.") % slug)
    return build


def refuse_strangers(request: Request) -> None:
    if not may_run(request):
        raise Problem("unauthenticated", _("Log in to start or cancel runs."))


def refusal(error: ledger.RunRefused) -> Problem:
    detail = error.detail_zh if current_lang() == "zh" else error.detail_en
    if error.code == "busy":
        return Problem("busy", detail, wait=RETRY_AFTER_S)
    return Problem("run_refused", detail)


class RunList(Endpoint):
    """GET: runs, newest first. POST: submit one (202 new or joined, 200 fresh)."""

    @extend_schema(operation_id="list_runs", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        names = {"record", "build", "state", "verdict"}
        check_parameters(request, names | {"limit", "cursor", "lang"})
        check_choice(request, "state", Run.State.values)
        check_choice(request, "verdict", Verdict.values)
        rows = Run.objects.select_related("repro__record", "evidence", "build")
        columns = {"record": "repro__record_id", "build": "build_id"}
        for name in names & set(request.query_params):
            rows = rows.filter(**{columns.get(name, name): request.query_params[name]})
        return listing(request, self, rows, "-created_at", documents.run_document)

    @extend_schema(
        operation_id="submit_run", responses=OpenApiTypes.OBJECT, request=RunRequest
    )
    def post(self, request: Request) -> Response:
        check_parameters(request, {"lang"})
        refuse_strangers(request)
        form = RunRequest(data=request.data)
        form.is_valid(raise_exception=True)
        submitted = self.submit(request, form.validated_data)
        run = submitted.run
        body = documents.run_document(
            run, joined=submitted.joined, cached=submitted.cached
        )
        headers = {"Location": reverse("api-run-detail", args=[run.id])}
        status = 200 if submitted.cached else 202
        return answer(request, body, status=status, headers=headers)

    def submit(self, request: Request, data: dict[str, Any]) -> ledger.Submitted:
        repro = wanted_repro(data["record"], data["repro"])
        try:
            return ledger.submit(
                repro,
                wanted_build(data["build"]),
                data["device"],
                data.get("trials") or repro.header.get("trials", 1),
                requester=requester(request),
                again=data["again"],
            )
        except ledger.RunRefused as error:
            raise refusal(error) from error


class RunDetail(Endpoint):
    """GET: one run; poll it until `state` is finished or cancelled."""

    @extend_schema(operation_id="get_run", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, run_id: str) -> Response:
        check_parameters(request, {"lang"})
        return answer(request, documents.run_document(get_run(run_id)))


class RunLog(Endpoint):
    """GET ?after=SEQ: the log lines that follow; `end` once no more can come."""

    @extend_schema(operation_id="get_run_log", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, run_id: str) -> Response:
        check_parameters(request, {"after"})
        run = get_run(run_id)
        after = request.query_params.get("after", "0")
        if not (after.isdecimal() and len(after) <= MAX_SEQ_DIGITS):
            raise Problem("invalid", _("after must be a whole number."))
        rows = list(run.log.filter(seq__gt=int(after))[:LOG_PAGE])
        return Response(
            {
                "lines": [documents.log_line(row) for row in rows],
                "next": rows[-1].seq if rows else int(after),
                "end": run.is_over and len(rows) < LOG_PAGE,
            }
        )


class RunCancel(Endpoint):
    """POST: cancel; a queued run at once, a running one as soon as its worker sees."""

    @extend_schema(
        operation_id="cancel_run", responses=OpenApiTypes.OBJECT, request=None
    )
    def post(self, request: Request, run_id: str) -> Response:
        check_parameters(request, {"lang"})
        refuse_strangers(request)
        run = get_run(run_id)
        if not ledger.cancel(run):
            raise Problem("run_over", _("The run is %s.") % run.state)
        return answer(request, documents.run_document(get_run(run_id)), status=202)


class BuildList(Endpoint):
    """GET: every torch build this site knows, installed somewhere or not."""

    @extend_schema(operation_id="list_builds", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        check_parameters(request, {"limit", "cursor", "lang"})
        rows = Build.objects.prefetch_related("installations")
        return listing(request, self, rows, "slug", documents.build_item)


class WorkerList(Endpoint):
    """GET: workers, and which queues each serves."""

    @extend_schema(operation_id="list_workers", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        check_parameters(request, {"limit", "cursor", "lang"})
        online = set(ledger.online_workers().values_list("name", flat=True))
        item = partial(documents.worker_item, online=online)
        return listing(request, self, Worker.objects.all(), "name", item)


class RecordMatrix(Endpoint):
    """GET: the record's verdict on each tested build, oldest version first."""

    @extend_schema(operation_id="get_record_matrix", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, record_id: str) -> Response:
        check_parameters(request, set())
        record = get_record(record_id)
        return Response(
            {
                "record": record.id,
                "cells": [
                    {
                        "build": cell.build,
                        "raw": cell.build_raw,
                        "device": cell.device_class,
                        "verdict": cell.verdict,
                        "reason": cell.reason or None,
                        "hits": cell.hits,
                        "trials": cell.trials,
                        "evidence": cell.evidence,
                        "observed_at": timestamp(cell.observed_at),
                    }
                    for cell in cells(record.findings.all())
                ],
                "urls": kb_documents.record_urls(record),
            }
        )


class EvidenceList(Endpoint):
    """GET: evidence, newest first."""

    @extend_schema(operation_id="list_evidence", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        names = {"record", "build"}
        check_parameters(request, names | {"limit", "cursor", "lang"})
        rows = Evidence.objects.all()
        for name in names & set(request.query_params):
            rows = rows.filter(**{f"{name}_id": request.query_params[name]})
        return listing(request, self, rows, "-started_at", documents.evidence_item)


class EvidenceDetail(Endpoint):
    """GET: the evidence object itself (contract §5), by digest."""

    @extend_schema(operation_id="get_evidence", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, digest: str) -> Response:
        check_parameters(request, set())
        evidence = Evidence.objects.filter(digest=digest).first()
        if evidence is None:
            raise Problem("unknown_evidence", _("There is no evidence %s.") % digest)
        return Response(evidence.body)
