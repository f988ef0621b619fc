"""Pages of records, builds, workers, evidence and the matrix."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from kb.pages import reader_choice, views as kb
from kb.pages.record import page as record_page
from runner.models import Build
from runner.pages import (
    builds,
    evidence as evidence_page,
    known_builds,
    matrix_data,
    record_matrix,
)
from runner.pages.matrix import build_matrix
from runner.pages.record import opening, run_panel
from runner.pages.sweeps import maps as sweep_maps
from runner.runs import health


@require_safe
def record_detail(
    request: HttpRequest, record_id: str, slug: str | None = None
) -> HttpResponse:
    """A record's page, with what was run and what starts a run."""
    record = record_page.find(record_id)
    if slug != record.slug:
        return redirect(kb.address_of(record, request), permanent=True)
    known, reader = known_builds.load(), reader_choice.of(request)
    about = opening.of_record(record, reader, known)
    asked = about.asked.value if about.asked else ""
    context = {
        "record": record,
        "page": record_page.build(record, about.torch, asked),
        "about": about,
        "panel": run_panel.build(record, request, known, about.torch),
        "maps": sweep_maps.of_record(record, about.torch),
    }
    shown = render(request, "runner/record.html", context)
    return reader_choice.remember(request, shown)


@require_safe
def matrix(request: HttpRequest) -> HttpResponseBase:
    """All records by build, or with ?record= one of them by check."""
    one = wanted_matrix(request.GET)
    if request.GET.get("format") == "json":
        return matrix_data.answer(request, one)
    if one:
        return render(request, "runner/record_matrix.html", {"page": one})
    page = build_matrix(request.GET)
    return render(request, "runner/matrix.html", {"page": page})


def wanted_matrix(query: QueryDict) -> record_matrix.RecordMatrix | None:
    """Of the record that is asked for; None for all of them."""
    record_id = query.get("record", "")
    if not record_id:
        return None
    record = record_matrix.find(record_id)
    return record_matrix.build(record, tuple(query.getlist("build")))


build_list = kb.page_of("runner/builds.html", lambda _query: builds.build_list())
worker_list = kb.page_of("runner/workers.html", lambda _query: builds.worker_list())
health_page = never_cache(
    kb.page_of("runner/health.html", lambda _query: health.look())
)


@require_safe
def build_detail(request: HttpRequest, slug: str) -> HttpResponse:
    build = Build.objects.filter(slug=slug).first()
    if build is None:
        raise Http404(_("There is no build %s.") % slug)
    return render(request, "runner/build.html", {"page": builds.build_page(build)})


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 once database and migrations let this process answer; else 503 and why."""
    reasons = health.not_ready()
    text = "\n".join(reasons or ["ok"]) + "\n"
    status = 503 if reasons else 200
    return HttpResponse(text, status=status, content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not health.may_scrape(request.headers.get("Authorization", "")):
        return HttpResponse("401: METRICS_TOKEN\n", status=401)
    return HttpResponse(health.metrics(), content_type=health.METRICS_TYPE)


@require_safe
def evidence_detail(request: HttpRequest, short: str) -> HttpResponse:
    evidence = evidence_page.find(short)
    if evidence is None:
        raise Http404(_("There is no evidence %s.") % short)
    page = evidence_page.build(evidence, request)
    return render(request, "runner/evidence.html", {"page": page})


@require_safe
def run_neutral(request: HttpRequest, run_id: UUID) -> HttpResponse:
    response = redirect("run-detail", run_id)
    patch_vary_headers(response, ("Accept-Language", "Cookie"))
    return response
