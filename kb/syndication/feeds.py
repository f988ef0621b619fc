"""Atom feeds of a language: new records, and verdicts that flip between builds.

One of all records, and one of each component.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.syndication.views import Feed
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.translation import gettext as _

from kb.languages import HTML_TAG, current_lang
from kb.models import Flip, Record, Standing

ENTRIES = 50


@dataclass(frozen=True)
class Entry:
    """One entry. `mark` tells those of one record apart."""

    record: Record
    title: str
    mark: str
    moment: datetime


def listed(component: str) -> QuerySet[Standing]:
    """What the lists show, of one component or of all."""
    rows = Standing.objects.order_by()
    if component:
        rows = rows.filter(facets__contains=f"\ncomponent:{component}\n")
    return rows


def entries(component: str = "") -> list[Entry]:
    """The newest first, of both kinds."""
    among = listed(component)
    entries = [*new_records(among), *flips(among)]
    return sorted(entries, key=lambda entry: entry.moment, reverse=True)[:ENTRIES]


def new_records(among: QuerySet[Standing]) -> list[Entry]:
    """Published records by when they came to this site."""
    ids = among.values("pk")
    created = Record.history.filter(history_type="+", id__in=ids)
    dates = created.order_by("-history_date").values_list("id", "history_date")
    moments = dict(dates[:ENTRIES])
    rows = Record.objects.filter(pk__in=moments).defer("html")
    return [
        Entry(row, f"{row.id} {row.text('title', current_lang())}", "", moments[row.pk])
        for row in rows
    ]


def flips(among: QuerySet[Standing]) -> list[Entry]:
    rows = Flip.objects.filter(record__in=among.values("pk"))
    rows = rows.select_related("record").defer("record__html")
    return [flip_entry(flip) for flip in rows.order_by("-observed_at", "pk")[:ENTRIES]]


def flip_entry(flip: Flip) -> Entry:
    facts = {
        "record": flip.record_id,
        "build": flip.build,
        "before": flip.before,
        "title": flip.record.text("title", current_lang()),
    }
    if flip.is_good:
        title = _("%(record)s: first good in %(build)s, bad in %(before)s. %(title)s")
    else:
        title = _("%(record)s: first bad in %(build)s, good in %(before)s. %(title)s")
    mark = f"{flip.kind}:{flip.build}:{flip.device_class}"
    return Entry(flip.record, title % facts, mark, flip.observed_at)


class ChangesFeed(Feed):  # type: ignore[type-arg]
    feed_type = Atom1Feed

    @property
    def language(self) -> str:  # type: ignore[override]
        return HTML_TAG[current_lang()]

    def get_object(self, request: HttpRequest, component: str = "") -> str:
        if component and not listed(component).exists():
            raise Http404
        return component

    def title(self, component: str) -> str:
        name = _("Does it NaN?")
        return f"{name} · {component}" if component else name

    def subtitle(self) -> str:
        return _("New records, and verdicts that flip between torch builds.")

    def author_name(self) -> str:
        return _("Does it NaN?")

    def link(self) -> str:
        return reverse("front")

    def feed_url(self, component: str) -> str:
        if component:
            return reverse("component-feed", args=[component])
        return reverse("feed")

    def items(self, component: str) -> list[Entry]:
        return entries(component)

    def item_title(self, item: Entry) -> str:
        return item.title

    def item_description(self, item: Entry) -> str:
        return item.record.text("summary", current_lang())

    def item_link(self, item: Entry) -> str:
        mark = f"#{item.mark}" if item.mark else ""
        return item.record.get_absolute_url() + mark

    def item_pubdate(self, item: Entry) -> datetime:
        return item.moment

    def item_updateddate(self, item: Entry) -> datetime:
        return item.moment
