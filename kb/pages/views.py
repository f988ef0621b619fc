"""Pages of the knowledge base."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import connection
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    QueryDict,
)
from django.shortcuts import redirect, render
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from kb import problems
from kb.findings import contradiction_list as contradictions_page
from kb.models import Record
from kb.pages import (
    browse,
    claims,
    compare as compare_page,
    front as front_page,
    law as law_page,
    lookup,
    search as search_page,
    symptom as symptom_page,
    theme,
)
from kb.pages.paste import drain
from kb.pages.record import page as record_page
from kb.releases import sides
from kb.versions.order import tested_builds

PageView = Callable[[HttpRequest], HttpResponse]


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 once the site and its database answer."""
    connection.ensure_connection()
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def underway(request: HttpRequest) -> HttpResponse:
    """The notice of what is loaded or installed behind the pages, for those that ask
    again; once nothing is, the invitation to look anew.
    """
    return render(request, "_underway.html", {"asked_again": True})


def page_of(template: str, build: Callable[[QueryDict], object]) -> PageView:
    """The view of a page that its address alone decides."""

    @require_safe
    def view(request: HttpRequest) -> HttpResponse:
        return render(request, template, {"page": build(request.GET)})

    return view


front = page_of("kb/front.html", lambda _query: front_page.build())
record_list = page_of("kb/records.html", browse.build)
claim_list = page_of("kb/claims.html", claims.build)
contradiction_list = page_of("kb/contradictions.html", contradictions_page.build)


# Reads only: a forged request changes nothing, and no cookie is needed to look up.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def look_up(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return redirect("front")
    page = lookup.answer(request)
    response = render(request, page.template, {"page": page}, status=page.status)
    if page.retry_s:
        response["Retry-After"] = str(page.retry_s)
    return theme.remember(request, response)


# A forged request changes colours, and a token would be a cookie on every page.
@login_not_required
@csrf_exempt
@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    return theme.choose(request)


def address_of(record: Record, request: HttpRequest) -> str:
    """Of its page, with what was asked beside it."""
    query = request.META.get("QUERY_STRING", "")
    return record.get_absolute_url() + (f"?{query}" if query else "")


@require_safe
def record_neutral(request: HttpRequest, record_id: str) -> HttpResponse:
    record = record_page.find(record_id)
    response = redirect(address_of(record, request))
    patch_vary_headers(response, ("Accept-Language", "Cookie"))
    return response


@require_safe
def contribute(request: HttpRequest) -> HttpResponse:
    context = {"repository": settings.REPOSITORY_URL}
    return render(request, "kb/contribute.html", context)


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    page = search_page.build(request.GET)
    if page.target is not None:
        return redirect(page.target)
    context = {"page": page, "query": page.query}
    return render(request, "kb/search.html", context, status=page.status)


@require_safe
def problem_detail(request: HttpRequest, slug: str) -> HttpResponse:
    kind = problems.kind_of(slug)
    if kind is None:
        raise Http404(_("There is no problem type %s.") % slug)
    return render(request, "kb/problem.html", {"kind": kind, "slug": slug})


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400: a request over Django's own limits says so, as 413."""
    if isinstance(exception, DisallowedHost):
        return HttpResponseBadRequest("400: unknown host\n", content_type="text/plain")
    too_big = isinstance(exception, RequestDataTooBig)
    if too_big:
        drain(request)
    status = 413 if too_big else 400
    return render(request, "400.html", {"too_big": too_big}, status=status)


@require_safe
def symptom_detail(request: HttpRequest, slug: str) -> HttpResponse:
    return render(request, "kb/symptom.html", {"page": symptom_page.build(slug)})


@require_safe
def law_detail(request: HttpRequest, slug: str) -> HttpResponse:
    page = law_page.build(slug, request.GET)
    return render(request, "kb/law.html", {"page": page})


@require_safe
def compare_start(request: HttpRequest) -> HttpResponse:
    page = compare_page.start(request)
    if isinstance(page, str):
        return redirect(page)
    return render(request, "kb/compare.html", {"page": page}, status=page.status)


# Reads only: a forged request changes nothing, and what is pasted is not kept.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def compare(request: HttpRequest, before: str, after: str) -> HttpResponse:
    page = compare_page.build(request, before, after)
    if isinstance(page, str):
        return redirect(page)
    return render(request, "kb/compare.html", {"page": page}, status=page.status)


@require_safe
def release(request: HttpRequest, name: str) -> HttpResponse:
    """A release is a comparison with its predecessor; the oldest has none."""
    builds = tested_builds()
    side = sides.find(name, builds)
    if side is None or not (side.is_release and side.builds):
        raise Http404(_("Nothing has been run here on torch %s.") % name)
    previous = sides.previous(side, builds)
    if previous is None:
        return redirect("compare-start")
    return redirect("compare", previous.name, side.name)
