"""A record as one form: prose and single facts, and a table of rows for each list."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext, gettext_lazy as _

from kb.admin.form import FACT_FIELDS, FACT_LABELS, LABELS, RecordForm, field_of
from kb.choices import LANGS, SECTIONS
from kb.editor.tables import FORMS, Lines, RowForm, table
from kb.languages import HTML_TAG
from kb.models import Record
from kb.publishing import editing
from kb.publishing.rows import BILINGUAL
from kb.records.files import FACTS_FILE, Problem, RecordError

# "source[2].note.zh"
IN_A_ROW = re.compile(r"(\w+)\[(\d+)\](?:\.(\w+))?(?:.*\.(en|zh))?")
SINGLE = ("publication", "upstream", "symptom_class", "affected_when")
LISTED = ("components", "aliases", "related", "environment")
ONE_ON_EACH_LINE = _("One on each line.")


class EditForm(RecordForm):
    """`tables`: a formset for each list of tables, by its column."""

    components = Lines(FACT_LABELS["components"], help_text=ONE_ON_EACH_LINE)
    aliases = Lines(FACT_LABELS["aliases"], help_text=ONE_ON_EACH_LINE)
    related = Lines(FACT_LABELS["related"], help_text=ONE_ON_EACH_LINE)
    environment = Lines(FACT_LABELS["environment"], help_text=ONE_ON_EACH_LINE)

    class Meta(RecordForm.Meta):
        exclude: list[str] = []
        fields = [
            *SINGLE,
            *LISTED,
            *(f"{name}_{lang}" for name in (*BILINGUAL, *SECTIONS) for lang in LANGS),
        ]
        widgets = {
            **RecordForm.Meta.widgets,
            **{
                f"{name}_{lang}": forms.Textarea(attrs={"rows": 8})
                for name in SECTIONS
                for lang in LANGS
            },
            **{
                f"withdrawn_because_{lang}": forms.Textarea(attrs={"rows": 2})
                for lang in LANGS
            },
        }

    def __init__(self, data: QueryDict | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        for field in self.fields.values():
            # The checks of files say what must not be empty, all at once.
            field.required = False
        self.tables = {
            column: table(column, getattr(self.instance, column), data)
            for column in FORMS
        }
        for form in (self, *(row for rows in self.tables.values() for row in rows)):
            look_like_the_site(form)

    def clean(self) -> dict[str, Any]:
        for rows in self.tables.values():
            if not rows.is_valid():
                self.add_error(None, self.look_below())
        return super().clean()

    def kept(self, column: str) -> list[RowForm]:
        return [row for row in self.tables[column] if not row.is_gone]

    def take_rows(self, record: Record) -> Record:
        for column in self.tables:
            setattr(record, column, [row.row() for row in self.kept(column)])
        return record

    def check(self, candidate: Record) -> None:
        try:
            editing.prepare(self.take_rows(candidate))
        except RecordError as error:
            for problem in error.problems:
                self.place(problem)

    def place(self, problem: Problem) -> None:
        """Put a problem to the field it is about."""
        found = IN_A_ROW.match(problem.key) if problem.file == FACTS_FILE else None
        column = FACT_FIELDS.get(found[1], "") if found else ""
        if found and column in self.tables:
            row = self.kept(column)[int(found[2])]
            name = "_".join(part for part in (found[3], found[4]) if part)
            row.add_error(name if name in row.fields else None, problem.message)
            if self.look_below() not in self.non_field_errors():
                self.add_error(None, self.look_below())
            return
        name = field_of(problem)
        text = problem.message if name in self.fields else str(problem)
        self.add_error(name if name in self.fields else None, text)

    def look_below(self) -> str:
        return gettext("Some facts cannot be saved so: see what is wrong below each.")

    def save_as_edited(self) -> bool:
        """Save as the next revision; False where nothing changed."""
        return self.save_edited(self.take_rows(self.instance))

    # --- what the page shows, in its order ---
    @property
    def single_facts(self) -> list[Any]:
        return [self[name] for name in (*SINGLE, *LISTED)]

    @property
    def prose(self) -> list[tuple[Any, list[Any]]]:
        names = ("title", "summary", *SECTIONS, "withdrawn_because")
        return [
            (LABELS[name], [self[f"{name}_{lang}"] for lang in LANGS]) for name in names
        ]

    @property
    def this_edit(self) -> list[Any]:
        return [self[name] for name in ("reason", "size", "in_step")]

    @property
    def lists(self) -> list[tuple[str, Any, Any]]:
        return [
            (column, FACT_LABELS[column], rows) for column, rows in self.tables.items()
        ]


def look_like_the_site(form: forms.BaseForm) -> None:
    for name, field in form.fields.items():
        if isinstance(field.widget, forms.TextInput | forms.Textarea):
            field.widget.attrs["class"] = "in"
        if name.endswith(("_en", "_zh")):
            field.widget.attrs["lang"] = HTML_TAG[name[-2:]]


def with_one_more(sent: QueryDict, column: str) -> QueryDict:
    """What was sent, with another empty row in a table."""
    more = sent.copy()
    name = f"{column}-TOTAL_FORMS"
    if column in FORMS and sent.get(name, "").isdigit():
        more[name] = str(int(sent.get(name, "")) + 1)
    return more
