"""Atom feeds: of a language, of the flips of a record, of a component."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.syndication.views import Feed
from django.db.models import Prefetch, QuerySet
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.translation import gettext as _

from kb.addresses import record_or_404
from kb.languages import HTML_TAG, current_lang
from kb.models import Flip, Record, Standing
from kb.search.index.inverted import with_facet
from kb.syndication import dates

ENTRIES = 50
# What an entry says of its record.
SHOWN = ("slug", "title_en", "title_zh", "summary_en", "summary_zh")


@dataclass(frozen=True)
class Entry:
    """One entry. `mark` tells those of one record apart."""

    record: Record
    title: str
    mark: str
    moment: datetime


def entries() -> list[Entry]:
    """The newest first, of both kinds."""
    entries = [*new_records(), *flips(Flip.objects.all())]
    return sorted(entries, key=lambda entry: entry.moment, reverse=True)[:ENTRIES]


def new_records() -> list[Entry]:
    """Published records by when they first ran; `entries` keeps the newest."""
    rows = Record.objects.filter(pk__in=Standing.objects.values("pk"))
    rows = rows.order_by("pk").only(*dates.SHOWN, *SHOWN)
    first = {pk: came for pk, (came, _last) in dates.first_and_last(rows).items()}
    lang = current_lang()
    return [
        Entry(row, f"{row.id} {row.text('title', lang)}", "", first[row.pk])
        for row in rows
    ]


def flips(rows: QuerySet[Flip]) -> list[Entry]:
    """The newest of these."""
    rows = rows.order_by("-observed_at", "pk").prefetch_related(
        Prefetch("record", Record.objects.only(*SHOWN))
    )
    return [flip_entry(flip) for flip in rows[:ENTRIES]]


def flip_entry(flip: Flip) -> Entry:
    facts = {
        "record": flip.record_id,
        "build": flip.build,
        "before": flip.before,
        "title": flip.record.text("title", current_lang()),
    }
    if flip.is_good:
        title = _("%(record)s: bug gone in %(build)s, seen in %(before)s. %(title)s")
    else:
        title = _("%(record)s: bug in %(build)s, not seen in %(before)s. %(title)s")
    mark = f"{flip.kind}:{flip.build}:{flip.device_class}"
    return Entry(flip.record, title % facts, mark, flip.observed_at)


class EntryFeed(Feed):  # type: ignore[type-arg]
    """An Atom feed of entries in the reader's language."""

    feed_type = Atom1Feed

    @property
    def language(self) -> str:  # type: ignore[override]
        return HTML_TAG[current_lang()]

    def item_title(self, item: Entry) -> str:
        return item.title

    def item_description(self, item: Entry) -> str:
        return item.record.text("summary", current_lang())

    def item_link(self, item: Entry) -> str:
        mark = f"#{item.mark}" if item.mark else ""
        return item.record.get_absolute_url() + mark

    def item_pubdate(self, item: Entry) -> datetime:
        return item.moment

    item_updateddate = item_pubdate


class ChangesFeed(EntryFeed):
    def title(self) -> str:
        return _("Does it NaN?")

    def subtitle(self) -> str:
        return _("New records, and verdicts that flip between torch builds.")

    author_name = title

    def link(self) -> str:
        return reverse("front")

    def items(self) -> list[Entry]:
        return entries()


class FlipFeed(EntryFeed):
    """Where verdicts turn between builds; `get_object` says of what."""

    def subtitle(self, obj: Any) -> str:
        return _("Verdicts that flip between torch builds.")

    def author_name(self) -> str:
        return _("Does it NaN?")


class RecordFeed(FlipFeed):
    def get_object(self, request: HttpRequest, record_id: str) -> Record:
        return record_or_404(Record.objects.visible().defer("html"), record_id)

    def title(self, obj: Record) -> str:
        return f"{obj.id} {obj.text('title', current_lang())}"

    def link(self, obj: Record) -> str:
        return obj.get_absolute_url()

    def items(self, obj: Record) -> list[Entry]:
        return flips(obj.flips.all())


class ComponentFeed(FlipFeed):
    def get_object(self, request: HttpRequest, name: str) -> str:
        if not with_facet("component", name):
            raise Http404(_("No record is about %s.") % name)
        return name

    def title(self, obj: str) -> str:
        return obj

    def link(self, obj: str) -> str:
        return reverse("record-list", query={"component": obj})

    def items(self, obj: str) -> list[Entry]:
        return flips(Flip.objects.filter(record__in=with_facet("component", obj)))
