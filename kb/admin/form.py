"""The form of a record in the admin: what files refuse is refused at its field."""

from __future__ import annotations

import json
from copy import copy
from typing import Any

from django import forms
from django.forms.models import construct_instance
from django.utils.translation import gettext, gettext_lazy as _

from kb.choices import LANGS, SECTIONS, Significance
from kb.languages import HTML_TAG, OWN_NAME
from kb.models import Record
from kb.publishing import editing
from kb.publishing.rows import BILINGUAL, LISTS
from kb.records.files import ARTICLE_FILES, FACTS_FILE, Problem, RecordError

# The form field that shows a problem, by the first part of its key.
FACT_FIELDS = {table: column for column, table in LISTS.items()}
BILINGUAL_FIELDS = {key: column for column, key in BILINGUAL.items()}
LABELS = {
    "title": _("Title"),
    "summary": _("Summary"),
    "withdrawn_because": _("Withdrawn because"),
    "symptom": _("Symptom"),
    "environment": _("Environment"),
    "root_cause": _("Root cause"),
    "workaround": _("Workarounds"),
    "fix": _("Fix"),
}
FACT_LABELS = {
    "id": _("ID"),
    "slug": _("Name in the address"),
    "publication": _("Publication"),
    "upstream": _("Upstream"),
    "symptom_class": _("Symptom class"),
    "components": _("Components"),
    "aliases": _("Aliases"),
    "related": _("Related records"),
    "environment": _("Reported environments"),
    "affected_when": _("Affected when"),
    "preconditions": _("Preconditions"),
    "signatures": _("Signatures"),
    "affected": _("Affected versions"),
    "fixes": _("Fixes"),
    "workarounds": _("Workarounds in facts"),
    "diagnoses": _("Diagnoses"),
    "sources": _("Sources"),
}


class IndentedJson(json.JSONEncoder):
    """One value per line, so that a list of tables can be edited."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "indent": 2, "ensure_ascii": False})


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


class RecordForm(forms.ModelForm):  # type: ignore[type-arg]
    """The record's columns; what `publishing.editing` refuses stands at its field."""

    size = forms.ChoiceField(
        label=_("How much the edit changes"),
        choices=Significance.choices,
        initial=Significance.MEDIUM,
        required=False,
        help_text=_(
            "Where both languages were edited, or only the outdated one, they are in "
            "step again unless the edit is small."
        ),
    )
    in_step = forms.BooleanField(
        label=_("Both languages say the same now"),
        required=False,
        initial=False,
        help_text=_("Nothing is outdated, whatever was edited."),
    )
    reason = forms.CharField(
        label=_("What was changed and why"),
        max_length=100,
        required=False,
        initial="",
        widget=forms.TextInput(attrs={"size": 80}),
        help_text=_("One line for the history."),
    )
    # The revision that was opened: somebody may have saved another one meanwhile.
    opened = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Record
        exclude: list[str] = []
        labels = FACT_LABELS
        widgets = {
            f"{name}_{lang}": forms.Textarea(attrs={"rows": 3, "cols": 44})
            for name in ("title", "summary")
            for lang in LANGS
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "opened" in self.fields:
            self.fields["opened"].initial = self.stored_revision()
        for name in (*BILINGUAL, *SECTIONS):
            for lang in LANGS:
                field = self.fields.get(f"{name}_{lang}")
                if field is not None:
                    field.label = f"{LABELS[name]} · {OWN_NAME[lang]}"
                    field.widget.attrs["lang"] = HTML_TAG[lang]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        self.check_opened(cleaned.get("opened"))
        if not self.errors:
            self.check(construct_instance(self, copy(self.instance)))
        return cleaned

    def stored_revision(self) -> int | None:
        """The newest one; the form may hold an older, to bring it back."""
        rows = Record.objects.filter(pk=self.instance.pk)
        return rows.values_list("revision", flat=True).first()

    def check_opened(self, opened: int | None) -> None:
        stored = self.stored_revision()
        if stored is not None and opened is not None and opened != stored:
            text = gettext(
                "Revision %(stored)d was saved while you edited revision %(opened)d. "
                "Copy what you wrote, open the record again and put it in there."
            )
            self.add_error(None, text % {"stored": stored, "opened": opened})

    def check(self, candidate: Record) -> None:
        try:
            editing.prepare(candidate)
        except RecordError as error:
            for problem in error.problems:
                name = field_of(problem)
                is_field = name in self.fields
                text = f"{problem.key}: {problem.message}" if is_field else str(problem)
                self.add_error(name if is_field else None, text)

    def save_edited(self, record: Record) -> bool:
        """Save as the next revision, as the form says; False where nothing changed."""
        record._change_reason = self.cleaned_data.get("reason") or None
        word = self.cleaned_data.get("size") or Significance.MEDIUM
        in_step = bool(self.cleaned_data.get("in_step"))
        return editing.save_edited(record, Significance(word), in_step=in_step)
