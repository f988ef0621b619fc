"""What machines ask a site for: a sitemap, robots.txt, security.txt, icons."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.sitemaps import Sitemap
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone

from kb.addresses import base_address
from kb.models import Law, Record, Symptom

PAGES = ("front", "record-list", "matrix", "claim-list", "build-list")
# Answers to questions, not pages to be found.
PRIVATE = ("/admin/", "/api/", "/*/lookup/", "/*/search/", "/*/runs/", "/*/captures/")


class PageSitemap(Sitemap):  # type: ignore[type-arg]
    i18n = True
    alternates = True

    def items(self) -> list[str]:
        return list(PAGES)

    def location(self, item: str) -> str:
        return reverse(item)


class RecordSitemap(Sitemap):  # type: ignore[type-arg]
    """Records that the lists show, withdrawn ones not."""

    i18n = True
    alternates = True

    def items(self) -> QuerySet[Record]:
        listed = Record.objects.filter(standing__isnull=False)
        return listed.only("slug", "modified").order_by("pk")

    def lastmod(self, item: Record) -> datetime:
        return item.modified


class ExplainedSitemap(Sitemap):  # type: ignore[type-arg]
    """Symptoms of many causes, and laws of arithmetic."""

    i18n = True
    alternates = True

    def items(self) -> list[Symptom | Law]:
        return [*Symptom.objects.all(), *Law.objects.all()]

    def lastmod(self, item: Symptom | Law) -> datetime:
        return item.modified


SITEMAPS = {
    "pages": PageSitemap,
    "records": RecordSitemap,
    "symptoms": ExplainedSitemap,
}


@login_not_required
def robots(request: HttpRequest) -> HttpResponse:
    closed = ["/"] if settings.READ_LOGIN else PRIVATE
    lines = [
        "User-agent: *",
        *(f"Disallow: {path}" for path in closed),
        f"Sitemap: {base_address(request)}{reverse('sitemap')}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain")


@login_not_required
def security(request: HttpRequest) -> HttpResponse:
    """security.txt (RFC 9116): where a fault of the site is told in private."""
    base, repository = base_address(request), settings.REPOSITORY_URL
    until = timezone.now() + timedelta(days=180)
    lines = [
        f"Contact: {repository + '/security' if repository else base + '/'}",
        f"Expires: {until:%Y-%m-%dT00:00:00Z}",
        "Preferred-Languages: en, zh",
        f"Canonical: {base}{reverse('security')}",
    ]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain")


@login_not_required
def icon(request: HttpRequest, name: str) -> HttpResponse:
    """Browsers and phones ask at the root, whatever a page links."""
    return HttpResponseRedirect(static(name))
