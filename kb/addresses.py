"""Addresses as a reader elsewhere gets them, and the record that one names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from kb.languages import in_each_language
from kb.models import Record

Json = dict[str, Any]


def absolute(path: str) -> str:
    """The address as SITE_URL makes it; a path where SITE_URL is not set."""
    return f"{settings.SITE_URL}{path}"


def base_address(request: HttpRequest) -> str:
    """The site's own address, else that by which it was asked."""
    return settings.SITE_URL or request.build_absolute_uri("/").rstrip("/")


def record_or_404(rows: QuerySet[Record], record_id: str) -> Record:
    found = rows.filter(pk=record_id).first()
    if found is None:
        raise Http404(_("There is no record %s.") % record_id)
    return found


def page_urls(name: str, *args: Any) -> dict[str, str]:
    """The address of the page of this name in each language."""
    return in_each_language(lambda: absolute(reverse(name, args=args)))


def record_urls(record: Record) -> Json:
    """Of a record's page in each language, of the record and its runs in the API."""
    path, runs = api_paths(record.id)
    return {
        "html": {lang: absolute(path) for lang, path in record.urls().items()},
        "record": absolute(path),
        "runs": absolute(runs),
    }


@lru_cache(maxsize=1000)
def api_paths(record: str) -> tuple[str, str]:
    """Of the record and of its runs."""
    path = reverse("api-record-detail", args=[record])
    return path, f"{reverse('api-run-list')}?record={record}"
