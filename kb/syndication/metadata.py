"""What a page says of itself to those who link it: its one address, its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static

from kb.languages import HTML_TAG, current_lang
from kb.models import Record

PICTURE = "card.png"


@dataclass(frozen=True)
class Metadata:
    """`canonical` is "" for what has no address, such as the answer to a paste."""

    canonical: str
    picture: str


def base_address(request: HttpRequest) -> str:
    return settings.SITE_URL or request.build_absolute_uri("/").rstrip("/")


def of(request: HttpRequest) -> Metadata:
    """The address without what only changes the view of the same page."""
    base = base_address(request)
    is_page = request.method in {"GET", "HEAD"}
    return Metadata(
        canonical=f"{base}{request.path}" if is_page else "",
        picture=base + static(PICTURE),
    )


def article(record: Record, base: str) -> dict[str, Any]:
    """A record as schema.org describes a technical article."""
    lang = current_lang()
    return {
        "@context": "https://schema.org",
        "@type": "TechArticle",
        "identifier": record.id,
        "headline": record.text("title", lang),
        "description": record.text("summary", lang),
        "inLanguage": HTML_TAG[lang],
        "url": base + record.get_absolute_url(),
        "dateModified": record.modified.isoformat(),
        "about": [{"@type": "SoftwareApplication", "name": "PyTorch"}],
        "keywords": [record.get_symptom_class_display(), *record.components],
        "citation": [row["url"] for row in record.sources if row.get("url")],
        "isAccessibleForFree": True,
    }
