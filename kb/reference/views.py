"""The page of the API's documentation."""

from __future__ import annotations

from functools import lru_cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from kb.languages import current_lang
from kb.reference.document import reference
from kb.syndication.metadata import base_address


@require_safe
def api_reference(request: HttpRequest) -> HttpResponse:
    context = {
        "reference": reference(),
        "body": body(current_lang(), base_address(request)),
    }
    return render(request, "kb/reference.html", context)


@lru_cache(maxsize=4)
def body(lang: str, base: str) -> SafeString:
    """All but the frame of the page, in the active language, which is `lang`.

    It is long, and the same until the site is started again.
    """
    context = {"reference": reference(), "base": base}
    return render_to_string("kb/reference/_body.html", context)
