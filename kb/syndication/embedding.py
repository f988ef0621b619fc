"""A record's row of verdicts to be framed by other pages, and oEmbed, which finds it.

https://oembed.com: a page that is given a record's address asks `/oembed` for it.
"""

from __future__ import annotations

import re
from math import ceil
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.html import format_html
from django.utils.translation import gettext as _, override
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from kb.languages import DJANGO_LANG
from kb.models import Record
from kb.syndication.cards import content, drawing
from kb.syndication.cards.content import Card
from kb.syndication.metadata import base_address

FRESH_S = 300
# Anybody may frame this page and no other; it runs nothing and sends nothing.
FRAMED = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors *"
)
# What a frame needs to follow a link in a new tab, and no more.
SANDBOX = "allow-popups allow-popups-to-escape-sandbox"
SCHEMES = ("light", "dark")
RECORD_PATH = re.compile(r"/(?:(en|zh)/)?(NAN-\d{4})(?:/[-a-z0-9_]*/?)?")
WIDTH, NARROWEST, MOST = 640, 240, 10_000
# Of the page, in CSS pixels (static/css/pages.css, "Embedded").
EDGE, SQUARE, SQUARE_LINE, TEXT_LINE, LETTER = 16, 52, 56, 24, 9


@xframe_options_exempt
@require_safe
def row(request: HttpRequest, record_id: str) -> HttpResponse:
    """A small page without scripts and cookies; `?theme=` chooses its colours."""
    record = find(record_id)
    chosen = request.GET.get("theme", "")
    context = {
        "record": record,
        "card": content.of_record(record),
        "chosen": chosen if chosen in SCHEMES else "",
    }
    response = render(request, "kb/embed.html", context)
    response.headers["Content-Security-Policy"] = FRAMED
    response.headers["X-Robots-Tag"] = "noindex"
    patch_cache_control(response, public=True, max_age=FRESH_S)
    return response


def find(record_id: str) -> Record:
    rows = Record.objects.addressable().defer("html").prefetch_related("findings")
    record = rows.filter(pk=record_id).first()
    if record is None:
        raise Http404(_("There is no record %s.") % record_id)
    return record


@require_safe
def oembed(request: HttpRequest) -> HttpResponse:
    if request.GET.get("format", "json") != "json":
        return refusal("Only format=json is answered.", 501)
    asked = record_of(request.GET.get("url", ""), request)
    if asked is None:
        return refusal("url= is the address of a record on this site.", 404)
    width, height = (limit(request.GET.get(name)) for name in ("maxwidth", "maxheight"))
    if width is None or height is None:
        return refusal("maxwidth= and maxheight= are whole numbers of pixels.", 400)
    record, lang = asked
    with override(DJANGO_LANG[lang]):
        answer = answer_for(record, base_address(request), width, height)
    response = JsonResponse(answer)
    patch_cache_control(response, public=True, max_age=FRESH_S)
    return response


def refusal(text: str, status: int) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain")


def limit(text: str | None) -> int | None:
    """A size in pixels, MOST where none is given; None for what is no size."""
    if text is None:
        return MOST
    is_size = text.isascii() and text.isdigit() and len(text) < 6 and int(text) > 0
    return int(text) if is_size else None


def record_of(address: str, request: HttpRequest) -> tuple[Record, str] | None:
    """The record whose page, in either language or none, is at this address."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    hosts = {urlsplit(base_address(request)).netloc, request.get_host()}
    path = RECORD_PATH.fullmatch(parts.path)
    if parts.scheme not in ("http", "https") or parts.netloc not in hosts or not path:
        return None
    rows = Record.objects.addressable().defer("html").prefetch_related("findings")
    record = rows.filter(pk=path[2]).first()
    return (record, path[1] or "en") if record else None


def answer_for(
    record: Record, base: str, max_width: int, max_height: int
) -> dict[str, Any]:
    card = content.of_record(record)
    width = min(WIDTH, max_width)
    height = min(height_of(card, width), max_height)
    title = f"{record.id} {card.titles[0]}"
    source = base + reverse("record-embed", args=[record.id])
    frame = format_html(
        '<iframe src="{}" title="{}" width="{}" height="{}" sandbox="{}" '
        'loading="lazy" style="border:0;max-width:100%"></iframe>',
        *(source, title, width, height, SANDBOX),
    )
    answer: dict[str, Any] = {
        "version": "1.0",
        "type": "rich",
        "title": title,
        "provider_name": card.site,
        "provider_url": base + reverse("front"),
        "cache_age": FRESH_S,
        "html": frame,
        "width": width,
        "height": height,
    }
    if max_width >= drawing.WIDTH and max_height >= drawing.HEIGHT:
        answer |= {
            "thumbnail_url": base + content.address(record, card),
            "thumbnail_width": drawing.WIDTH,
            "thumbnail_height": drawing.HEIGHT,
        }
    return answer


def height_of(card: Card, width: int) -> int:
    """So high that nothing has to be scrolled: lines of text, and of squares."""
    inner = max(width, NARROWEST) - 2 * EDGE
    letters = sum(2 if sign > "\u2e7f" else 1 for sign in card.titles[0])
    lines = ceil((letters + len(card.record) + 1) * LETTER / inner)
    lines += ceil(len(" ".join(words for _verdict, words in card.counts)) * 10 / inner)
    lines += ceil(len(card.said) * LETTER / inner) + len(card.rows) + 1
    squares = sum(ceil(len(found.squares) / (inner // SQUARE)) for found in card.rows)
    return 3 * EDGE + lines * TEXT_LINE + squares * SQUARE_LINE


def discovery(record: Record, base: str) -> str:
    """The address that a record's page names to whoever wants to embed it."""
    query = urlencode({"url": base + record.get_absolute_url(), "format": "json"})
    return f"{base}{reverse('oembed')}?{query}"
