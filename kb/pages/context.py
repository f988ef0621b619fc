"""What every page needs: its language, its other languages, where it belongs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static

from kb import progress
from kb.addresses import base_address
from kb.languages import DJANGO_LANG, HTML_TAG, OTHER, OWN_NAME, current_lang
from kb.pages import theme

# What a link to any page shows.
PICTURE = "card.png"
SECTION = {
    "record-list": "records",
    "record-detail": "records",
    "symptom-detail": "records",
    "law-detail": "records",
    "matrix": "matrix",
    "compare": "matrix",
    "compare-start": "matrix",
    "claim-list": "claims",
    "build-list": "builds",
    "build-detail": "builds",
    "worker-list": "builds",
    "health": "builds",
    "contribute": "contribute",
}


def site(request: HttpRequest) -> dict[str, Any]:
    lang = current_lang()
    match = request.resolver_match
    return {
        "lang": lang,
        "html_lang": HTML_TAG[lang],
        "section": SECTION.get(match.url_name or "", "") if match else "",
        "switch": switch(request, lang),
        "alternates": alternates(request, lang),
        "canonical": canonical(request),
        "picture": base_address(request) + static(PICTURE),
        "theme": theme.of(request),
        "underway": progress.underway(),
    }


def canonical(request: HttpRequest) -> str:
    """The address without what only changes the view of the same page.

    "" for what has none, such as the answer to a paste.
    """
    is_page = request.method in {"GET", "HEAD"}
    return f"{base_address(request)}{request.path}" if is_page else ""


def rest_of(request: HttpRequest, lang: str) -> str | None:
    """The address after /en or /zh; None for pages without a language."""
    path = request.get_full_path()
    prefix = f"/{lang}"
    return path.removeprefix(prefix) if path.startswith(f"{prefix}/") else None


def switch(request: HttpRequest, lang: str) -> dict[str, str] | None:
    """The link to this very page, query included, in the other language."""
    rest = rest_of(request, lang)
    if rest is None:
        return None
    other = OTHER[lang]
    return {
        "url": f"/{other}{rest}",
        "tag": HTML_TAG[other],
        "code": DJANGO_LANG[other],
        "name": OWN_NAME[other],
    }


def alternates(request: HttpRequest, lang: str) -> list[dict[str, str]]:
    """Absolute addresses for <link rel=alternate>; x-default picks by language."""
    rest = rest_of(request, lang)
    if rest is None:
        return []
    base = base_address(request)
    links = [
        {"tag": HTML_TAG[code], "url": f"{base}/{code}{rest}"} for code in HTML_TAG
    ]
    return [*links, {"tag": "x-default", "url": f"{base}{rest}"}]
