"""Fields of the API's answers: words, texts in two languages, values worked out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any, ClassVar, NoReturn

from django.utils.translation import gettext_lazy
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import get_attribute

from kb.choices import LANGS

AnyField = serializers.Field[Any, Any, Any, Any]
TEXT = {
    "description": "Both languages; one text where `?lang=` asks for it.",
    "oneOf": [
        {
            "type": "object",
            "properties": {lang: {"type": "string"} for lang in LANGS},
            "required": list(LANGS),
            "additionalProperties": False,
        },
        {"type": "string"},
    ],
}


@extend_schema_field({"$ref": "#/components/schemas/Text"})
class TextField(AnyField):
    """{"en": …, "zh": …}, or one text where ?lang= asks for it."""

    def to_representation(self, value: dict[str, str]) -> dict[str, str] | str:
        lang = self.context.get("lang")
        return value[lang] if lang else value


class ColumnsField(TextField):
    """A text in two columns of a model: `title` is title_en and title_zh."""

    def get_attribute(self, instance: Any) -> dict[str, str]:
        *path, name = self.source_attrs
        row = get_attribute(instance, path)
        return {lang: getattr(row, f"{name}_{lang}") for lang in LANGS}


class NullField(serializers.CharField):
    """A column that is empty where it has no value: null."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_null=True, **options)

    def to_representation(self, value: Any) -> str | None:  # type: ignore[override]
        return super().to_representation(value) or None


class Made(AnyField):
    """What `make` makes of the object: as a method field, and with a type."""

    def __init__(self, make: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.make = make

    def get_attribute(self, instance: Any) -> Any:
        return self.make(instance)


class MadeText(Made, TextField):
    pass


class MadeString(Made, serializers.CharField):
    pass


class MadeMaybe(Made, serializers.CharField):
    """Null where `make` gives nothing."""

    def __init__(self, make: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(make, allow_null=True, **options)


class MadeFlag(Made, serializers.BooleanField):
    pass


class MadeList(Made, serializers.ListSerializer[Any]):
    """Rows that `make` makes, each as `child` shows it."""


class Choice(serializers.ChoiceField):
    """One of a few words, which a refusal lists."""

    default_error_messages: ClassVar[Any] = {
        "invalid_choice": gettext_lazy("“{input}” is none of: {choices}.")
    }

    def fail(self, key: str, **kwargs: Any) -> NoReturn:
        super().fail(key, choices=", ".join(map(str, self.choices)), **kwargs)


def word(choices: Any, **options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(choices=choices, **options)


def string(**options: Any) -> serializers.CharField:
    return serializers.CharField(**options)


def maybe(**options: Any) -> serializers.CharField:
    return serializers.CharField(allow_null=True, **options)


def texts(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **options)


def number(**options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(**options)


def moment(**options: Any) -> serializers.DateTimeField:
    """RFC 3339 in UTC, to the second."""
    return serializers.DateTimeField(
        format="%Y-%m-%dT%H:%M:%SZ", default_timezone=UTC, **options
    )
