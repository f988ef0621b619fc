"""Pages of releases."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from kb.release_pages import compare as compare_page, release as release_page


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
def release_list(request: HttpRequest) -> HttpResponse:
    return render(request, "kb/releases.html", {"page": release_page.every()})


@require_safe
def release_detail(request: HttpRequest, name: str) -> HttpResponse:
    page = release_page.build(name)
    if page is None:
        raise Http404(_("Nothing has been run on a torch release %s here.") % name)
    if isinstance(page, str):
        return redirect("release-detail", page)
    return render(request, "kb/release.html", {"page": page})
