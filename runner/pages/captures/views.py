"""Views of captures: nothing of them is indexed, kept elsewhere or told to others."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import (
    require_http_methods,
    require_safe,
)

from runner import access
from runner.captures import keeping
from runner.models import Capture
from runner.pages.captures import form, page
from runner.pages.run_form import Refusal


def with_capture(
    view: Callable[[HttpRequest, Capture], HttpResponse],
) -> Callable[..., HttpResponse]:
    """The view of one capture, or the page that says why there is none."""

    @never_cache
    @wraps(view)
    def private(request: HttpRequest, capture_id: UUID) -> HttpResponse:
        capture = keeping.find(capture_id)
        response = (
            view(request, capture)
            if capture
            else render(request, "runner/capture_gone.html", status=404)
        )
        for name, value in keeping.HEADERS.items():
            response[name] = value
        return response

    return private


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def send(request: HttpRequest) -> HttpResponse:
    refusal = None
    if request.method == "POST":
        try:
            return redirect(form.submit(request))
        except Refusal as error:
            refusal = error
    shown = form.build(request, str(refusal or ""))
    status = refusal.status if refusal else 200
    response = render(
        request, "runner/capture_send.html", {"page": shown}, status=status
    )
    if refusal and refusal.wait_s:
        response.headers["Retry-After"] = str(refusal.wait_s)
    return response


@require_safe
@with_capture
def detail(request: HttpRequest, capture: Capture) -> HttpResponse:
    context = {"page": page.build(capture), "may_run": access.may_run(request.user)}
    return render(request, "runner/capture.html", context)


@require_safe
@with_capture
def status(request: HttpRequest, capture: Capture) -> HttpResponse:
    """The part of the page that changes while runs go on."""
    return render(request, "runner/_capture_live.html", {"page": page.build(capture)})


@require_safe
@with_capture
def file(request: HttpRequest, capture: Capture) -> HttpResponse:
    return HttpResponse(capture.text, content_type="application/json")


@require_safe
@with_capture
def github(request: HttpRequest, capture: Capture) -> HttpResponse:
    return HttpResponse(page.build(capture).markdown, content_type="text/plain")


# Without a token: a browser that tells no referrer names no origin either, and whoever
# knows the address may run what it leads to, and delete it.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@with_capture
def run(request: HttpRequest, capture: Capture) -> HttpResponse:
    if request.method != "POST":
        # Where the page of a refusal leads when it is read in another language.
        return redirect(capture)
    refusal = form.run_on_more(request, capture)
    if refusal is None:
        return redirect(capture)
    context = {"page": page.build(capture), "may_run": True, "error": str(refusal)}
    return render(request, "runner/capture.html", context, status=refusal.status)


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@with_capture
def delete(request: HttpRequest, capture: Capture) -> HttpResponse:
    if request.method != "POST":
        return redirect(capture)
    if not access.may_run(request.user):
        raise PermissionDenied
    keeping.delete(capture)
    return render(request, "runner/capture_gone.html", {"is_deleted": True})
