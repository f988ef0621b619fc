"""Evidence in the document of the API, made of the shape by which it is checked.

Answered as it is stored: what it says stands under its digest, so it is never written
anew. These say what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from kb.api.fields import AnyField, maybe, word
from kb.api.serializers import Serializer
from kb.choices import Outcome
from runner.evidence import shape
from runner.evidence.shape import Field, Maybe, Number, Text, Typed, Words

WORKAROUND_RESULTS = ("verified", "does_not_help", "untested")
HELP = {
    "origin": "as sent; the receiver keeps its own",
    "parameters": "values other than the reviewed ones: no verdict of the record",
    "variants": "the code of the workarounds at other values, by variant",
    "harness": "protocol of the harness that drove the checks",
    "served": "warm: by a fork of a parent; or cold",
    "layers": "of the sandbox; null and false: not in use",
    "landlock": "the ABI",
    "uid": "own, shared with the worker, or shared root",
    "observations": 'not finite: {"$float": "nan" | "inf" | "-inf"}',
    "killed": "killed from outside, and for that reason started again",
}
# JSON's types by Python's, where a field holds one of them or null.
SCALARS: dict[type, Callable[..., AnyField]] = {
    bool: serializers.BooleanField,
    int: serializers.IntegerField,
    str: serializers.CharField,
}


def serializer_of(name: str, fields: Mapping[str, Field]) -> type[Serializer]:
    made = {key: field_of(key, field) for key, field in fields.items()}
    return type(f"{name}Serializer", (Serializer,), made)


def field_of(key: str, field: Field) -> AnyField:
    options: dict[str, Any] = {"required": key not in shape.OPTIONAL}
    if key in HELP:
        options["help_text"] = HELP[key]
    if isinstance(field, Maybe):
        options["allow_null"], field = True, field.field
    if isinstance(field, Number):
        kind = serializers.IntegerField if field.whole else serializers.FloatField
        options |= {"min_value": field.low, "max_value": field.high}
        return kind(**options)
    if isinstance(field, Words):
        return word(field.allowed, **options)
    if isinstance(field, Text):
        return serializers.CharField(allow_blank=not field.form, **options)
    if field in (shape.TABLE, shape.ROWS):
        return NESTED[key](**options)
    return scalar(field, options)


def scalar(field: Field, options: dict[str, Any]) -> AnyField:
    kinds = field.kinds if isinstance(field, Typed) else ()
    (kind,) = (made for known, made in SCALARS.items() if known in kinds)
    return kind(**{"allow_null": type(None) in kinds, **options})


def values(child: Callable[[], AnyField]) -> Callable[..., AnyField]:
    return lambda **options: serializers.DictField(child=child(), **options)


def rows(made: type[Serializer]) -> Callable[..., AnyField]:
    return lambda **options: made(many=True, **options)


NESTED: dict[str, Callable[..., AnyField]] = {
    "parameters": values(serializers.JSONField),
    "observations": values(serializers.JSONField),
    "telemetry": serializers.JSONField,
    "packages": values(maybe),
    "parts": values(serializers.CharField),
    "workarounds": values(lambda: word(WORKAROUND_RESULTS)),
    "refuted": values(lambda: word(Outcome.choices)),
    "layers": serializer_of("Layers", shape.LAYERS),
    "log": serializer_of("CheckLog", shape.LOG),
    "killed": rows(serializer_of("Killed", shape.KILLED)),
}
NESTED |= {
    "repro": serializer_of("ReproOfEvidence", shape.REPRO),
    "build": serializer_of("BuildOfRun", shape.BUILD),
    "device": serializer_of("DeviceOfRun", shape.DEVICE),
    "limits": serializer_of("Limits", shape.LIMITS),
}
CheckSerializer = serializer_of("Check", shape.CHECK)
NESTED["checks"] = rows(CheckSerializer)
NESTED["variants"] = values(serializer_of("Variant", shape.VARIANT))
EvidenceSerializer = serializer_of("Evidence", shape.EVIDENCE)
EvidenceSerializer.__doc__ = (
    "One immutable evidence object, under the digest of its content."
)


@extend_schema_field(CheckSerializer(many=True))
class StoredChecks(serializers.JSONField):
    """The checks of an evidence object, as they stand in it."""
