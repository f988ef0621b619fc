"""Atom feeds of the flips of one record, of one component and in one release."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from kb.languages import current_lang
from kb.models import Flip, Record
from kb.releases import sides, turns
from kb.releases.sides import Side
from kb.search.index.inverted import with_facet
from kb.syndication.feeds import Entry, EntryFeed, flips
from kb.versions.order import tested_builds


class FlipFeed(EntryFeed):
    """Where verdicts turn between builds; `get_object` says of what."""

    def subtitle(self, obj: Any) -> str:
        return _("Verdicts that flip between torch builds.")

    def author_name(self) -> str:
        return _("Does it NaN?")

    def items(self, obj: Any) -> list[Entry]:
        return flips(self.rows(obj))

    def rows(self, obj: Any) -> QuerySet[Flip]:
        raise NotImplementedError


class RecordFeed(FlipFeed):
    def get_object(self, request: HttpRequest, record_id: str) -> Record:
        record = Record.objects.visible().defer("html").filter(pk=record_id).first()
        if record is None:
            raise Http404(_("There is no record %s.") % record_id)
        return record

    def title(self, obj: Record) -> str:
        return f"{obj.id} {obj.text('title', current_lang())}"

    def link(self, obj: Record) -> str:
        return obj.get_absolute_url()

    def feed_url(self, obj: Record) -> str:
        return reverse("record-feed", args=[obj.pk])

    def rows(self, obj: Record) -> QuerySet[Flip]:
        return obj.flips.all()


class ComponentFeed(FlipFeed):
    def get_object(self, request: HttpRequest, name: str) -> str:
        if not with_facet("component", name):
            raise Http404(_("No record is about %s.") % name)
        return name

    def title(self, obj: str) -> str:
        return obj

    def link(self, obj: str) -> str:
        return reverse("record-list", query={"component": obj})

    def feed_url(self, obj: str) -> str:
        return reverse("component-feed", args=[obj])

    def rows(self, obj: str) -> QuerySet[Flip]:
        return Flip.objects.filter(record__in=with_facet("component", obj))


class ReleaseFeed(FlipFeed):
    def get_object(self, request: HttpRequest, name: str) -> Side:
        side = sides.releases(tested_builds()).get(name)
        if side is None:
            raise Http404(_("Nothing has been run here on torch %s.") % name)
        return side

    def title(self, obj: Side) -> str:
        return f"torch {obj.name}"

    def link(self, obj: Side) -> str:
        return reverse("release-detail", args=[obj.name])

    def feed_url(self, obj: Side) -> str:
        return reverse("release-feed", args=[obj.name])

    def rows(self, obj: Side) -> QuerySet[Flip]:
        return turns.turning_in(obj)
