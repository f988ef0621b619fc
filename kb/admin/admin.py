"""Records in the admin: prose in both languages side by side, checked like files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy as _
from django.views.decorators.http import require_POST
from simple_history.admin import SimpleHistoryAdmin

from kb.admin import preview
from kb.admin.form import FACT_LABELS, LABELS, IndentedJson, RecordForm
from kb.choices import LANGS
from kb.languages import HTML_TAG, OWN_NAME, current_lang
from kb.models import Claim, Record, Repro
from kb.publishing import revisions

admin.site.site_header = _("Does it NaN? · Administration")
admin.site.site_title = _("Does it NaN?")
admin.site.index_title = _("What may be looked at and edited")


def name_columns(
    model: type[models.Model],
    labels: Mapping[str, Any],
    names: tuple[Any, Any] | None = None,
) -> None:
    """Call a model and its columns this in lists, filters and forms of the admin.

    `names` are the words for one row and for several. Not in the model itself:
    there each word would make a migration that changes nothing.
    """
    for field_name, label in labels.items():
        column = model._meta.get_field(field_name)
        if not isinstance(column, models.Field):
            raise TypeError(f"{model.__name__}.{field_name} is no column")
        column.verbose_name = label
    if names:
        model._meta.verbose_name, model._meta.verbose_name_plural = names


name_columns(
    Record,
    {**FACT_LABELS, "revision": _("Revision"), "modified": _("Last change")},
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

PROSE = forms.Textarea(attrs={"rows": 16, "cols": 44})
LISTS_AS_JSON = forms.Textarea(attrs={"rows": 8, "cols": 100, "lang": "en"})


class ReadOnlyInline(admin.TabularInline):
    """Rows that change with the record's files only."""

    template = "admin/readonly_inline.html"
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ClaimInline(ReadOnlyInline):
    model = Claim
    verbose_name_plural = _("Claims: they change with the record's files only")
    fields = ("cid", "kind", "text_en", "text_zh", "source", "check_ref", "expects")
    readonly_fields = fields


class ReproInline(ReadOnlyInline):
    model = Repro
    verbose_name_plural = _("Repros: their source changes with the files only")
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


class OutdatedFilter(admin.SimpleListFilter):
    """Records whose text in a language is behind the other's."""

    title = _("outdated language")
    parameter_name = "outdated"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(lang, OWN_NAME[lang]) for lang in LANGS]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Record]
    ) -> QuerySet[Record]:
        lang = self.value()
        return queryset.filter(outdated__has_key=lang) if lang in LANGS else queryset


class ReproFilter(admin.SimpleListFilter):
    title = _("repro")
    parameter_name = "repro"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("has one")), ("no", _("has none"))]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Record]
    ) -> QuerySet[Record]:
        if self.value() in {"yes", "no"}:
            without = self.value() == "no"
            return queryset.filter(repros__isnull=without).distinct()
        return queryset


def side_by_side(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}_en", f"{name}_zh") for name in names)


def prose(title: Any, *names: str, more: Sequence[str] = ()) -> tuple[Any, Any]:
    """A fieldset of texts in both languages, which can be previewed."""
    fields = (*side_by_side(*names), *more)
    return (title, {"fields": fields, "classes": ("bilingual", "previewed")})


@admin.register(Record)
class RecordAdmin(SimpleHistoryAdmin):  # type: ignore[misc]
    form = RecordForm
    inlines = (ClaimInline, ReproInline)
    list_display = (
        *("id", "title", "publication", "symptom_class", "upstream"),
        *("behind", "repro_count", "revision", "modified"),
    )
    list_display_links = ("id", "title")
    list_filter = (
        *("publication", "upstream", "symptom_class"),
        *(OutdatedFilter, ReproFilter),
    )
    search_fields = ("id", "slug", *(f"{n}_{x}" for n in LABELS for x in LANGS))
    readonly_fields = ("revision", "modified", "behind")
    history_list_display = ("revision",)
    history_list_per_page = 50
    object_history_list_template = "admin/kb/record/history_list.html"
    formfield_overrides = {
        models.TextField: {"widget": PROSE},
        models.JSONField: {"encoder": IndentedJson, "widget": LISTS_AS_JSON},
    }
    this_edit = (
        _("This edit"),
        {"fields": ("size", "in_step", "reason", "opened")},
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("id", "slug"),
                    ("publication", "revision", "modified", "behind"),
                )
            },
        ),
        (
            _("Title and summary"),
            {"fields": side_by_side("title", "summary"), "classes": ("bilingual",)},
        ),
        prose(_("Symptom"), "symptom"),
        prose(_("Environment"), "environment"),
        prose(_("Root cause"), "root_cause"),
        prose(_("Workarounds"), "workaround", more=("workarounds",)),
        prose(_("Fix"), "fix", more=("fixes",)),
        (
            _("Facts"),
            {
                "fields": (
                    ("upstream", "symptom_class", "affected_when"),
                    *("components", "aliases", "related", "environment"),
                    *("preconditions", "signatures", "affected", "sources"),
                ),
                "description": _(
                    "Lists as JSON, with the keys that issue.toml has in each table."
                ),
            },
        ),
        (
            _("Withdrawal"),
            {"fields": side_by_side("withdrawn_because"), "classes": ("bilingual",)},
        ),
        this_edit,
    )

    class Media:
        js = ["htmx-2.0.11.min.js"]

    # --- the list ---
    def get_queryset(self, request: HttpRequest) -> QuerySet[Record]:
        rows: QuerySet[Record] = super().get_queryset(request)
        return rows.annotate(repro_total=Count("repros"))

    @admin.display(description=_("Title"), ordering="title_en")
    def title(self, record: Record) -> str:
        return record.text("title", current_lang())

    @admin.display(description=_("Repros"), ordering="repro_total")
    def repro_count(self, record: Record) -> int:
        return int(getattr(record, "repro_total", 0))

    @admin.display(description=_("Outdated"), empty_value="–")
    def behind(self, record: Record) -> str | None:
        return "; ".join(behind_text(record, lang) for lang in record.outdated) or None

    # --- the form ---
    def get_readonly_fields(
        self, request: HttpRequest, obj: Any = None
    ) -> tuple[str, ...]:
        """Addresses stay: id and slug are chosen once."""
        return (*self.readonly_fields, *(("id", "slug") if obj else ()))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Who only looks is not asked about an edit."""
        may_edit = (
            self.has_change_permission(request, obj)
            if obj
            else self.has_add_permission(request)
        )
        return [row for row in self.fieldsets if may_edit or row is not self.this_edit]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Ids are never reused: a record is withdrawn, not deleted."""
        return False

    def save_model(
        self, request: HttpRequest, obj: Record, form: RecordForm, change: bool
    ) -> None:
        if not form.save_edited(obj):
            text = _("Nothing changed, so there is no new revision.")
            self.message_user(request, text, messages.WARNING)
        for lang in obj.outdated:
            self.message_user(request, behind_text(obj, lang), messages.WARNING)

    # --- preview and revisions ---
    def get_urls(self) -> list[Any]:
        guard = self.admin_site.admin_view
        return [
            path("preview/", guard(self.preview_view), name="kb_record_preview"),
            path(
                "<str:object_id>/history/<int:history_id>/changes/",
                guard(self.changes_view),
                name="kb_record_changes",
            ),
            *super().get_urls(),
        ]

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """The prose of the form as its page would show it; nothing is stored."""
        return require_POST(self.render_preview)(request)

    def render_preview(self, request: HttpRequest) -> HttpResponse:
        if not (
            self.has_add_permission(request) or self.has_change_permission(request)
        ):
            raise PermissionDenied
        live = "HX-Request" in request.headers
        name = "_preview.html" if live else "preview.html"
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Preview"),
            "sections": preview.build(request.POST.dict()),
            "media": self.media,
        }
        return render(request, f"admin/kb/record/{name}", context)

    def changes_view(
        self, request: HttpRequest, object_id: str, history_id: int
    ) -> HttpResponse:
        """What a revision changed against the one before it, word by word."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        rows = Record.history.filter(id=object_id)
        new = rows.filter(history_id=history_id).first()
        if new is None:
            raise Http404(gettext("There is no such revision of %s.") % object_id)
        old = new.prev_record
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Changes of %(id)s, revision %(revision)d")
            % {"id": object_id, "revision": new.revision},
            "opts": self.opts,
            "media": self.media,
            "new": new,
            "old": old,
            "next": new.next_record,
            "groups": change_groups(old, new) if old else [],
            "history_url": reverse("admin:kb_record_history", args=[object_id]),
        }
        return render(request, "admin/kb/record/changes.html", context)

    def set_history_delta_changes(
        self, request: HttpRequest, historical_records: Any, **_options: Any
    ) -> None:
        """Names of what changed; the words have a page of their own."""
        rows = list(historical_records)
        for new, old in pairwise(rows):
            names = [
                label_of(field, lang)
                for field, lang, _column in revisions.changed_columns(old, new)
            ]
            new.history_delta_changes = list(dict.fromkeys(names))


def label_of(field: str, lang: str) -> str:
    return f"{LABELS[field]} · {OWN_NAME[lang]}" if lang else str(FACT_LABELS[field])


def behind_text(record: Record, lang: str) -> str:
    entry = record.outdated[lang]
    text = gettext("%(language)s: says revision %(has)d, should say %(wants)d")
    return text % {"language": OWN_NAME[lang], **entry}


def change_groups(old: Any, new: Any) -> list[dict[str, Any]]:
    """The changes of a revision, both languages of a text in one group."""
    groups: dict[tuple[str, bool], dict[str, Any]] = {}
    for change in revisions.changes(old, new):
        labels: dict[str, Any] = LABELS if change.lang else FACT_LABELS
        group = groups.setdefault(
            (change.field, bool(change.lang)),
            {"label": labels[change.field], "changes": []},
        )
        tag = HTML_TAG.get(change.lang, "")
        name = OWN_NAME.get(change.lang, "")
        group["changes"].append({"pieces": change.pieces, "tag": tag, "language": name})
    return list(groups.values())
