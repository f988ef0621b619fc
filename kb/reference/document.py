"""The OpenAPI description as a page shows it: operations by subject, and their shapes.

docs/openapi.json is what `/api/v1/openapi.json` answers (a test holds them together);
to read it costs a hundredth of what making it anew does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings

from kb.reference import examples
from kb.reference.types import Type, type_of

Json = Mapping[str, Any]

SUBJECTS = ("lookup", "records", "claims", "runs", "evidence", "builds", "files")
CODE = re.compile(r"`([\w-]+)`")


@dataclass(frozen=True)
class Field:
    """A parameter, or a field of a shape. `place`: path, query, header, or ""."""

    name: str
    type: Type
    is_required: bool
    text: str
    place: str = ""


@dataclass(frozen=True)
class Answer:
    status: int
    phrase: str
    type: Type


@dataclass(frozen=True)
class Refusal:
    """A status, and the codes of the problems that have it."""

    status: int
    phrase: str
    codes: tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """`summary` is the first sentence of `text`, which is a paragraph each."""

    id: str
    method: str
    path: str
    summary: str
    text: tuple[str, ...]
    needs_token: bool
    fields: tuple[Field, ...]
    body: Type | None
    answers: tuple[Answer, ...]
    refusals: tuple[Refusal, ...]
    example: str


@dataclass(frozen=True)
class Shape:
    name: str
    text: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Subject:
    name: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Reference:
    intro: tuple[str, ...]
    subjects: tuple[Subject, ...]
    shapes: tuple[Shape, ...]


@cache
def reference() -> Reference:
    path = Path(settings.BASE_DIR) / "docs" / "openapi.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    operations = list(operations_of(found))
    return Reference(
        intro=paragraphs(found["info"]["description"]),
        subjects=tuple(
            Subject(name, tuple(one for tag, one in operations if tag == name))
            for name in SUBJECTS
        ),
        shapes=tuple(
            shape_of(name, schema)
            for name, schema in sorted(found["components"]["schemas"].items())
        ),
    )


def paragraphs(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def operations_of(found: Json) -> Iterator[tuple[str, Operation]]:
    """Each with its subject."""
    for path, methods in found["paths"].items():
        for method, entry in methods.items():
            yield entry["tags"][0], operation_of(method, path, entry)


def operation_of(method: str, path: str, entry: Json) -> Operation:
    summary, *text = paragraphs(entry["description"])
    return Operation(
        id=entry["operationId"],
        method=method.upper(),
        path=path,
        summary=summary,
        text=tuple(text),
        needs_token={} not in entry["security"],
        fields=tuple(map(parameter_of, entry.get("parameters", []))),
        body=body_of(entry),
        answers=tuple(answers_of(entry["responses"])),
        refusals=tuple(refusals_of(entry["responses"])),
        example=examples.command(method, path, entry),
    )


def parameter_of(entry: Json) -> Field:
    return Field(
        name=entry["name"],
        type=type_of(entry["schema"]),
        is_required=entry.get("required", False),
        text=entry.get("description", ""),
        place=entry["in"],
    )


def body_of(entry: Json) -> Type | None:
    content = entry.get("requestBody", {}).get("content", {})
    kinds = [type_of(kind.get("schema", {})) for kind in content.values()]
    return kinds[0] if kinds else None


def answers_of(responses: Json) -> Iterator[Answer]:
    for status, entry in responses.items():
        if int(status) < 400:
            content = list(entry.get("content", {}).values())
            kind = type_of(content[0].get("schema", {})) if content else Type("")
            yield Answer(int(status), HTTPStatus(int(status)).phrase, kind)


def refusals_of(responses: Json) -> Iterator[Refusal]:
    for status, entry in responses.items():
        if int(status) >= 400:
            codes = tuple(CODE.findall(entry["description"]))
            yield Refusal(int(status), HTTPStatus(int(status)).phrase, codes)


def shape_of(name: str, schema: Json) -> Shape:
    required = schema.get("required", [])
    return Shape(
        name=name,
        text=" ".join(schema.get("description", "").split()),
        fields=tuple(
            Field(
                name=field,
                type=type_of(entry),
                is_required=field in required,
                text=" ".join(entry.get("description", "").split()),
            )
            for field, entry in schema.get("properties", {}).items()
        ),
    )
