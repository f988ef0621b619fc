"""Badges and the picture of releases, as an SVG."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.cache import patch_cache_control
from django.utils.translation import override
from django.views.decorators.http import require_safe

from kb.languages import DJANGO_LANG
from kb.models import Record
from kb.syndication.badges import affected, releases, verdict
from kb.syndication.badges.drawing import FRESH_S, Badge

SVG = "image/svg+xml"


@require_safe
def on_build(request: HttpRequest, record_id: str, build: str) -> HttpResponse:
    record = find(record_id)
    device = request.GET.get("device", "")
    return shown(request, verdict.make(record.id, build, device, lang_of(request)))


@require_safe
def of_releases(request: HttpRequest, record_id: str) -> HttpResponse:
    with override(DJANGO_LANG[lang_of(request)]):
        context = {"picture": releases.draw(find(record_id))}
        response = render(request, "kb/releases.svg", context, SVG)
    return kept(response)


@require_safe
def of_version(request: HttpRequest, record_id: str) -> HttpResponse:
    typed, device = (request.GET.get(name, "") for name in ("torch", "device"))
    badge = affected.make(find(record_id), typed, device, lang_of(request))
    return shown(request, badge)


def find(record_id: str) -> Record:
    rows = Record.objects.addressable().defer("html")
    return get_object_or_404(rows, pk=record_id)


def lang_of(request: HttpRequest) -> str:
    lang = request.GET.get("lang", "")
    return lang if lang in DJANGO_LANG else "en"


def shown(request: HttpRequest, badge: Badge) -> HttpResponse:
    """A refusal is drawn, too: who looks at a README sees what is missing."""
    status = 400 if badge.is_refusal else 200
    return kept(render(request, "kb/badge.svg", {"badge": badge}, SVG, status=status))


def kept(response: HttpResponse) -> HttpResponse:
    patch_cache_control(response, public=True, max_age=FRESH_S)
    return response
