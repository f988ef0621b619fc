"""Starting, following and cancelling: one view for runs and sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from runner.pages import run_form, run_page
from runner.pages.sweeps import form as sweep_form, page as sweep_page
from runner.runs import jobs


def of_one(cancel: Callable[[Any], bool]) -> Callable[[Any, HttpRequest], int]:
    """For jobs that nobody joins: no others wait for them."""

    def cancel_it(job: Any, _request: HttpRequest) -> int:
        cancel(job)
        return 0

    return cancel_it


@dataclass(frozen=True)
class Kind:
    """`submit` queues what a form asks for and gives its address, or raises Refusal.

    `templates`: of the whole page, of what changes in it, and of what a cancellation
    changes at once, where that is another. `cancel` says how many others still wait.
    """

    submit: Callable[[HttpRequest, Record], str]
    refused: str | Promise
    find: Callable[[UUID], Any]
    build: Callable[[Any, HttpRequest], Any]
    templates: tuple[str, str, str]
    cancel: Callable[[Any, HttpRequest], int]


KINDS = {
    "run": Kind(
        run_form.submit_to,
        gettext_lazy("The run was not started"),
        run_page.find,
        run_page.build,
        ("", "", "runner/_run_cancelled.html"),
        run_page.cancel,
    ),
    "sweep": Kind(
        sweep_form.submit,
        gettext_lazy("The sweep was not started"),
        sweep_page.find,
        sweep_page.build,
        ("runner/sweep.html", "runner/_sweep_live.html", ""),
        of_one(jobs.cancel),
    ),
}


def wanted(kind: str, job_id: UUID) -> Any:
    job = KINDS[kind].find(job_id)
    if job is None:
        raise Http404(_("Nothing here has the id %s.") % job_id)
    return job


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest, record_id: str, kind: str) -> HttpResponse:
    record = get_object_or_404(Record.objects.visible(), id=record_id)
    if request.method != "POST":
        # Where a refusal's address leads when it is read, as in another language.
        return redirect(f"{record.get_absolute_url()}#run")
    try:
        return redirect(KINDS[kind].submit(request, record))
    except run_form.Refusal as refusal:
        title = str(KINDS[kind].refused)
        return run_form.refused(request, record, refusal, title=title)


@never_cache
@require_safe
def detail(request: HttpRequest, job_id: UUID, kind: str) -> HttpResponse:
    job = wanted(kind, job_id)
    context = {"page": KINDS[kind].build(job, request), "job": job}
    return render(request, KINDS[kind].templates[0], context)


@never_cache
@require_safe
def status(request: HttpRequest, job_id: UUID, kind: str) -> HttpResponse:
    """The part of the page that changes while it goes on."""
    page = KINDS[kind].build(wanted(kind, job_id), request)
    context = {"page": page, "fragment": True}
    return render(request, KINDS[kind].templates[1], context)


@require_POST
def cancel(request: HttpRequest, job_id: UUID, kind: str) -> HttpResponse:
    job, (_page, _live, changed) = wanted(kind, job_id), KINDS[kind].templates
    if not access.may_cancel(request, job):
        raise PermissionDenied
    withdrawn = bool(KINDS[kind].cancel(job, request))
    if not changed or "HX-Request" not in request.headers:
        address = job.get_absolute_url()
        return redirect(
            run_form.flagged(address, "withdrawn") if withdrawn else address
        )
    # The page follows it already: only what the reader has just changed.
    page = KINDS[kind].build(wanted(kind, job_id), request)
    context = {"page": page, "fragment": True, "withdrawn": withdrawn}
    return render(request, changed, context)
