"""A record's card, drawn once for each state of what it shows."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response, patch_cache_control
from django.utils.http import quote_etag
from django.views.decorators.http import require_safe

from kb.addresses import record_or_404
from kb.models import Record
from kb.syndication.cards import content, drawing

FRESH_S = 300
YEAR_S = 365 * 24 * 3600


@require_safe
def card(request: HttpRequest, record_id: str) -> HttpResponse:
    rows = Record.objects.addressable().defer("html").prefetch_related("findings")
    found = content.of_record(record_or_404(rows, record_id))
    etag = quote_etag(found.version)
    response = get_conditional_response(request, etag=etag) or HttpResponse(
        drawing.png(found), content_type="image/png", headers={"ETag": etag}
    )
    # An old address shows the new picture, and must not be kept as the old one.
    is_this = request.GET.get("v") == found.version
    patch_cache_control(response, public=True, max_age=YEAR_S if is_this else FRESH_S)
    return response
