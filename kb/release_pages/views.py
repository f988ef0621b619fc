"""Pages of releases."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from kb.release_pages import compare as compare_page
from kb.releases import sides
from kb.versions.order import tested_builds


@require_safe
def compare_start(request: HttpRequest) -> HttpResponse:
    page = compare_page.start(request)
    if isinstance(page, str):
        return redirect(page)
    return render(request, "kb/compare.html", {"page": page}, status=page.status)


@require_safe
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
