"""The tables of a record as rows of fields: each key of issue.toml is one.

Whether a row is right is decided where files are checked; nothing is required here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.forms.formsets import formset_factory
from django.utils.translation import gettext_lazy as _

from kb.choices import (
    FIX_KINDS,
    LANGS,
    PRECONDITION_KEYS,
    SIGNATURE_KINDS,
    SIGNATURE_SEEN,
    SOURCE_KINDS,
    WORKAROUND_KINDS,
)
from kb.languages import HTML_TAG, OWN_NAME
from kb.records.articles import unix_lines

Row = dict[str, Any]
Label = Any  # a text, translated when it is shown


def choice(label: Label, words: Mapping[str, Label] | Iterable[str]) -> forms.Field:
    named = words if isinstance(words, Mapping) else {word: word for word in words}
    choices = [("", "–"), *named.items()]
    return forms.ChoiceField(label=label, choices=choices, required=False)


def line(label: Label) -> forms.Field:
    return forms.CharField(label=label, required=False)


class Area(forms.CharField):
    """Several lines as they were typed, with the line ends of files."""

    def __init__(self, label: Label, rows: int = 2, help_text: Label = "") -> None:
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false"})
        super().__init__(
            label=label,
            required=False,
            strip=False,
            widget=widget,
            help_text=help_text,
        )

    def to_python(self, value: Any) -> str:
        return unix_lines(super().to_python(value) or "").strip("\n")


class Lines(Area):
    """A list, one value on each line."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        text = value if isinstance(value, str) else "\n".join(value or [])
        return [line.strip() for line in unix_lines(text).split("\n") if line.strip()]


class Events(Lines):
    """`[{introduced = "2.0"}]` as "introduced 2.0", one on each line."""

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return "\n".join(
            f"{kind} {version}" for event in value for kind, version in event.items()
        )

    def clean(self, value: Any) -> list[Row]:
        pairs = (line.partition(" ") for line in self.to_python(value))
        return [{kind: version.strip()} for kind, _space, version in pairs]


class Builds(Lines):
    """`[{raw = "2.6.0a0", state = "affected"}]` as "affected 2.6.0a0"."""

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return "\n".join(f"{row['state']} {row['raw']}" for row in value)

    def clean(self, value: Any) -> list[Row]:
        pairs = (line.partition(" ") for line in self.to_python(value))
        return [{"raw": raw.strip(), "state": state} for state, _space, raw in pairs]


class RowForm(forms.Form):
    """One row. `bilingual` keys have a field in each language, `optional` may lack."""

    keys: tuple[str, ...] = ()
    bilingual: Mapping[str, Label] = {}
    optional: tuple[str, ...] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for key, label in self.bilingual.items():
            for lang in LANGS:
                field = Area(f"{label} · {OWN_NAME[lang]}")
                field.widget.attrs |= {"lang": HTML_TAG[lang], "spellcheck": "true"}
                self.fields[f"{key}_{lang}"] = field

    @classmethod
    def flat(cls, row: Row) -> Row:
        """The row as initial values of the fields."""
        values = {key: value for key, value in row.items() if key not in cls.bilingual}
        for key in cls.bilingual:
            values |= {
                f"{key}_{lang}": row.get(key, {}).get(lang, "") for lang in LANGS
            }
        return values

    def value(self, key: str) -> Any:
        if key not in self.bilingual:
            return self.cleaned_data.get(key, "")
        texts = {lang: self.cleaned_data.get(f"{key}_{lang}", "") for lang in LANGS}
        return texts if any(texts.values()) or key not in self.optional else ""

    def row(self) -> Row:
        values = {key: self.value(key) for key in self.keys}
        return {
            key: value
            for key, value in values.items()
            if value or key not in self.optional
        }

    @property
    def is_gone(self) -> bool:
        """Taken out, or never filled in."""
        if self.cleaned_data.get("DELETE"):
            return True
        return not any(
            value for name, value in self.cleaned_data.items() if name != "DELETE"
        )


class PreconditionForm(RowForm):
    keys = ("key", "value", "where", "text")
    optional = ("where",)
    bilingual = {"text": _("Text")}
    key = choice(_("Kind"), PRECONDITION_KEYS)
    where = line(_("Where, in the repro's parameters"))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # As a class attribute it would hide the method of this name.
        self.fields["value"] = line(_("Value"))
        self.order_fields(["key", "value", "where"])


class SignatureForm(RowForm):
    keys = ("kind", "text", "seen", "source")
    optional = ("seen", "source")
    kind = choice(_("Kind"), SIGNATURE_KINDS)
    text = Area(_("Text as printed"))
    seen = choice(_("Seen: printed by a run here, or reported"), SIGNATURE_SEEN)
    source = line(_("Source"))


class AffectedForm(RowForm):
    keys = ("package", "events", "builds", "source")
    optional = ("builds",)
    package = line(_("Package"))
    source = line(_("Source"))
    events = Events(
        _("Ranges"),
        help_text=_('One on each line: "introduced 2.0", then "fixed 2.1".'),
    )
    builds = Builds(
        _("Single builds"),
        help_text=_('One on each line: "affected 2.6.0a0" or "not_affected 2.6.0".'),
    )


class FixForm(RowForm):
    keys = ("kind", "package", "version", "source")
    kind = choice(_("Kind"), FIX_KINDS)
    package = line(_("Package"))
    version = line(_("Version"))
    source = line(_("Source"))


class WorkaroundForm(RowForm):
    keys = ("name", "kind", "apply", "needs", "cost")
    bilingual = {"cost": _("Cost")}
    optional = ("apply",)
    name = line(_("Name"))
    kind = choice(_("Kind"), WORKAROUND_KINDS)
    apply = Area(
        _("What is copied"),
        help_text=_("Where the repro has this code, it stays what the repro has."),
    )
    needs = line(_("Needs"))


class DiagnosisForm(RowForm):
    keys = ("name", "text")
    bilingual = {"text": _("Text")}
    name = line(_("Name"))


class SourceForm(RowForm):
    keys = ("id", "kind", "url", "title", "date", "note")
    bilingual = {"note": _("Note")}
    optional = ("date", "note")
    id = line(_("ID"))
    kind = choice(_("Kind"), SOURCE_KINDS)
    url = line(_("Address"))
    title = line(_("Title"))
    date = line(_("Date"))


FORMS: dict[str, type[RowForm]] = {
    "preconditions": PreconditionForm,
    "signatures": SignatureForm,
    "affected": AffectedForm,
    "fixes": FixForm,
    "workarounds": WorkaroundForm,
    "diagnoses": DiagnosisForm,
    "sources": SourceForm,
}


def table(column: str, rows: list[Row], sent: Any = None) -> Any:
    """The rows of a column as forms, and an empty one to add another."""
    form = FORMS[column]
    factory = formset_factory(form, extra=1, can_delete=True)
    initial = [form.flat(row) for row in rows]
    return factory(sent, initial=None if sent is not None else initial, prefix=column)
