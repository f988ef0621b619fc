"""Records in the admin: prose in both languages side by side, checked like files."""

from __future__ import annotations

import json
from copy import copy
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import models
from django.forms.models import construct_instance
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from simple_history.admin import SimpleHistoryAdmin

from kb import editing
from kb.choices import LANGS, SECTIONS
from kb.models import Claim, Record, Repro
from kb.records import ARTICLE_FILES, FACTS_FILE, Problem, RecordError
from kb.rows import BILINGUAL, LISTS

# The form field that shows a problem, by the first part of its key.
FACT_FIELDS = {table: column for column, table in LISTS.items()}
BILINGUAL_FIELDS = {key: column for column, key in BILINGUAL.items()}
PROSE = forms.Textarea(attrs={"rows": 16, "cols": 44})
LISTS_AS_JSON = forms.Textarea(attrs={"rows": 16, "cols": 100})


class IndentedJson(json.JSONEncoder):
    """One value per line, so that a list of tables can be edited."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "indent": 2})


def field_of(problem: Problem) -> str:
    """The column that a problem of a file is about; "" where it is none."""
    if problem.file == FACTS_FILE:
        key, _dot, lang = problem.key.partition(".")
        name = key.partition("[")[0]
        if name in BILINGUAL_FIELDS:
            return f"{BILINGUAL_FIELDS[name]}_{lang or 'en'}"
        return FACT_FIELDS.get(name, name)
    langs = {file: lang for lang, file in ARTICLE_FILES.items()}
    if problem.file in langs and problem.key in SECTIONS:
        return f"{problem.key}_{langs[problem.file]}"
    return ""


class RecordForm(forms.ModelForm):
    """The record's columns; what `kb.editing` refuses stands at its field."""

    class Meta:
        model = Record
        exclude: list[str] = []
        widgets = {
            f"{name}_{lang}": forms.Textarea(attrs={"rows": 3, "cols": 44})
            for name in ("title", "summary")
            for lang in LANGS
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            self.check(construct_instance(self, copy(self.instance)))
        return cleaned

    def check(self, candidate: Record) -> None:
        try:
            editing.prepare(candidate)
        except RecordError as error:
            for problem in error.problems:
                name = field_of(problem)
                known = name in self.fields
                text = f"{problem.key}: {problem.message}" if known else str(problem)
                self.add_error(name if known else None, text)


class ReadOnlyInline(admin.TabularInline):
    """Rows that change with the record's files only."""

    extra = 0
    can_delete = False
    show_change_link = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ClaimInline(ReadOnlyInline):
    model = Claim
    fields = ("cid", "kind", "text_en", "text_zh", "source", "check_ref", "expects")
    readonly_fields = fields


class ReproInline(ReadOnlyInline):
    model = Repro
    fields = ("name", "fidelity", "device", "checks", "digest")
    readonly_fields = fields


def side_by_side(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}_en", f"{name}_zh") for name in names)


@admin.register(Record)
class RecordAdmin(SimpleHistoryAdmin):  # type: ignore[misc]
    form = RecordForm
    inlines = (ClaimInline, ReproInline)
    list_display = ("id", "title_en", "publication", "symptom_class", "modified")
    list_filter = ("publication", "upstream", "symptom_class")
    search_fields = ("id", "slug", "title_en", "title_zh")
    readonly_fields = ("revision", "modified")
    history_list_display = ("revision",)
    formfield_overrides = {
        models.TextField: {"widget": PROSE},
        models.JSONField: {"encoder": IndentedJson, "widget": LISTS_AS_JSON},
    }
    fieldsets = (
        (None, {"fields": (("id", "slug"), ("publication", "revision", "modified"))}),
        (_("Title and summary"), {"fields": side_by_side("title", "summary")}),
        (_("Symptom"), {"fields": side_by_side("symptom")}),
        (_("Environment"), {"fields": side_by_side("environment")}),
        (_("Root cause"), {"fields": side_by_side("root_cause")}),
        (_("Workarounds"), {"fields": (*side_by_side("workaround"), "workarounds")}),
        (_("Fix"), {"fields": (*side_by_side("fix"), "fixes")}),
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
        (_("Withdrawal"), {"fields": side_by_side("withdrawn_because")}),
    )

    def get_readonly_fields(
        self, request: HttpRequest, obj: Any = None
    ) -> tuple[str, ...]:
        """Addresses stay: id and slug are chosen once."""
        return (*self.readonly_fields, *(("id", "slug") if obj else ()))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Ids are never reused: a record is withdrawn, not deleted."""
        return False

    def save_model(
        self, request: HttpRequest, obj: Record, form: Any, change: bool
    ) -> None:
        if not editing.save_edited(obj):
            text = _("Nothing changed, so there is no new revision.")
            self.message_user(request, text, messages.WARNING)
