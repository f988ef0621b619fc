"""Badges as an SVG."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from kb.languages import DJANGO_LANG
from kb.models import Record
from kb.syndication.badges import affected, verdict
from kb.syndication.badges.drawing import FRESH_S, Badge


@require_safe
def on_build(request: HttpRequest, record_id: str, build: str) -> HttpResponse:
    record = find(record_id)
    device = request.GET.get("device", "")
    return shown(request, verdict.make(record.id, build, device, lang_of(request)))


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
    context = {"badge": badge}
    response = render(request, "kb/badge.svg", context, "image/svg+xml", status=status)
    patch_cache_control(response, public=True, max_age=FRESH_S)
    return response
