"""Starting, following and cancelling runs and sweeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from kb.models import Record
from runner import access
from runner.models import Run, Sweep
from runner.models.job import QueueJob
from runner.pages import run_form, run_page
from runner.pages.sweeps import form as sweep_form, page as sweep_page
from runner.runs import jobs

View = Callable[..., HttpResponse]


def starting(
    submit: Callable[[HttpRequest, Record], str], refused: str | Promise
) -> View:
    """`submit` queues what a form asks for and gives its address, or raises Refusal."""

    @require_http_methods(["GET", "HEAD", "POST"])
    def create(request: HttpRequest, record_id: str) -> HttpResponse:
        record = get_object_or_404(Record.objects.visible(), id=record_id)
        if request.method != "POST":
            # Where a refusal's address leads when it is read, as in another language.
            return redirect(f"{record.get_absolute_url()}#run")
        try:
            return redirect(submit(request, record))
        except run_form.Refusal as refusal:
            return run_form.refused(request, record, refusal, str(refused))

    return create


run_create = starting(run_form.submit_to, gettext_lazy("The run was not started"))
sweep_create = starting(sweep_form.submit, gettext_lazy("The sweep was not started"))


def of(find: Callable[[UUID], Any]) -> Callable[[View], View]:
    """The view of one job, given its id; 404 where there is none."""

    def decorated(view: View) -> View:
        @wraps(view)
        def shown(request: HttpRequest, job_id: UUID) -> HttpResponse:
            job = find(job_id)
            if job is None:
                raise Http404(_("Nothing here has the id %s.") % job_id)
            return view(request, job)

        return shown

    return decorated


def require_own(request: HttpRequest, job: QueueJob) -> None:
    if not access.may_cancel(request, job):
        raise PermissionDenied


# --- runs ----------------------------------------
@never_cache
@require_safe
@of(run_page.find)
def run_detail(request: HttpRequest, run: Run) -> HttpResponse:
    flags = {name: name in request.GET for name in ("cached", "withdrawn")}
    context = {"page": run_page.build(run, request), **flags}
    return render(request, "runner/run.html", context)


@never_cache
@require_safe
@of(run_page.find)
def run_status(request: HttpRequest, run: Run) -> HttpResponse:
    """The live part of a run's page; once the run is over, the whole of it."""
    if run.is_over:
        context = {"page": run_page.build(run, request), "fragment": True}
        response = render(request, "runner/_run_over.html", context)
        response["HX-Retarget"], response["HX-Reswap"] = "#run", "innerHTML"
        return response
    after = request.GET.get("after", "0")
    page = run_page.build(run, request, int(after[:9]) if after.isdecimal() else 0)
    context = {"page": page, "fragment": True}
    return render(request, "runner/_run_live.html", context)


@require_POST
@of(run_page.find)
def run_cancel(request: HttpRequest, run: Run) -> HttpResponse:
    require_own(request, run)
    withdrawn = bool(run_page.cancel(run, request))
    if "HX-Request" not in request.headers:
        address = run.get_absolute_url()
        return redirect(
            run_form.flagged(address, "withdrawn") if withdrawn else address
        )
    # The page follows it already: only what the reader has just changed.
    run.refresh_from_db()
    page = run_page.build(run, request)
    context = {"page": page, "fragment": True, "withdrawn": withdrawn}
    return render(request, "runner/_run_cancelled.html", context)


# --- sweeps ----------------------------------------
@never_cache
@require_safe
@of(sweep_page.find)
def sweep_detail(request: HttpRequest, sweep: Sweep) -> HttpResponse:
    page = sweep_page.build(sweep, request)
    return render(request, "runner/sweep.html", {"page": page})


@never_cache
@require_safe
@of(sweep_page.find)
def sweep_status(request: HttpRequest, sweep: Sweep) -> HttpResponse:
    """The part of the page that changes while it goes on."""
    context = {"page": sweep_page.build(sweep, request), "fragment": True}
    return render(request, "runner/_sweep_live.html", context)


@require_POST
@of(sweep_page.find)
def sweep_cancel(request: HttpRequest, sweep: Sweep) -> HttpResponse:
    require_own(request, sweep)
    jobs.cancel(sweep)
    return redirect(sweep)
