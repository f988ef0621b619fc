"""Records in the admin: everything of them, to be looked at. They change by files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db import models
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy as _

from kb.choices import LANGS
from kb.languages import OWN_NAME, current_lang
from kb.models import Claim, Record, Repro

admin.site.site_header = _("Does it NaN? · Administration")
admin.site.site_title = _("Does it NaN?")
admin.site.index_title = _("What you may see")

PROSE = {
    "title": _("Title"),
    "summary": _("Summary"),
    "withdrawn_because": _("Withdrawn because"),
    "symptom": _("Symptom"),
    "environment": _("Environment"),
    "root_cause": _("Root cause"),
    "workaround": _("Workarounds"),
    "fix": _("Fix"),
}
FACTS = {
    "id": _("ID"),
    "slug": _("Name in the address"),
    "publication": _("Publication"),
    "upstream": _("Upstream"),
    "symptom_class": _("Symptom class"),
    "affected_when": _("Affected when"),
    "modified": _("Last change"),
    "outdated": _("Outdated"),
}
LISTS = {
    "components": _("Components"),
    "aliases": _("Aliases"),
    "related": _("Related records"),
    "environment": _("Reported environments"),
    "preconditions": _("Preconditions"),
    "signatures": _("Signatures"),
    "affected": _("Affected versions"),
    "fixes": _("Fixes"),
    "workarounds": _("Workarounds in facts"),
    "diagnoses": _("Diagnoses"),
    "sources": _("Sources"),
    "check_titles": _("Checks"),
    "rules": _("Rules"),
}


def name_columns(model: type[models.Model], labels: Mapping[str, Any]) -> None:
    """Call a model's columns this in lists, filters and forms of the admin.

    Not in the model itself: there each word would make a migration.
    """
    for field_name, label in labels.items():
        column = model._meta.get_field(field_name)
        if not isinstance(column, models.Field):
            raise TypeError(f"{model.__name__}.{field_name} is no column")
        column.verbose_name = label


name_columns(
    Record,
    {
        **FACTS,
        **LISTS,
        **{
            f"{name}_{lang}": format_lazy("{} · {}", label, OWN_NAME[lang])
            for name, label in PROSE.items()
            for lang in LANGS
        },
    },
)
name_columns(
    Claim,
    {
        "cid": _("ID"),
        "kind": _("Kind"),
        "text_en": _("Text · English"),
        "text_zh": _("Text · 中文"),
        "source": _("Source"),
        "check_ref": _("Check"),
        "expects": _("Expects"),
    },
)
name_columns(
    Repro,
    {
        "name": _("Name"),
        "fidelity": _("Fidelity"),
        "device": _("Device"),
        "checks": _("Checks"),
        "digest": _("Digest"),
    },
)


class ReadOnly:
    """Nobody adds, changes or deletes these rows by hand, a superuser neither."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(ReadOnly, admin.TabularInline):
    template = "admin/readonly_inline.html"
    extra = 0


class ClaimInline(ReadOnlyInline):
    model = Claim
    verbose_name_plural = _("Claims")
    fields = ("cid", "kind", "text_en", "text_zh", "source", "check_ref", "expects")
    readonly_fields = fields


class ReproInline(ReadOnlyInline):
    model = Repro
    verbose_name_plural = _("Repros")
    fields = ("name", "fidelity", "device", "checks", "digest", "reviewed_source")
    readonly_fields = fields

    @admin.display(description=_("Source"))
    def reviewed_source(self, repro: Repro) -> str:
        return format_html(
            '<details><summary>{}</summary><pre tabindex="0" lang="en">{}</pre>'
            "</details>",
            gettext("Show"),
            repro.source,
        )


@admin.register(Record)
class RecordAdmin(ReadOnly, admin.ModelAdmin):
    inlines = (ClaimInline, ReproInline)
    list_display = (
        *("id", "title", "publication", "symptom_class", "upstream"),
        *("outdated", "repro_count", "modified"),
    )
    list_display_links = ("id", "title")
    list_filter = ("publication", "upstream", "symptom_class")
    search_fields = ("id", "slug", *(f"{n}_{x}" for n in PROSE for x in LANGS))
    readonly_fields = ("modified", "outdated")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Record]:
        rows: QuerySet[Record] = super().get_queryset(request)
        return rows.annotate(repro_total=Count("repros"))

    @admin.display(description=_("Title"), ordering="title_en")
    def title(self, record: Record) -> str:
        return record.text("title", current_lang())

    @admin.display(description=_("Repros"), ordering="repro_total")
    def repro_count(self, record: Record) -> int:
        return int(getattr(record, "repro_total", 0))
