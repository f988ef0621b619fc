"""Symptoms of several causes, as the page of a look-up shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kb.models import Record

Json = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """`affected`: whether the reader's build is, where the record matches."""

    record: Record
    tells: dict[str, str]
    affected: Json | None


@dataclass(frozen=True)
class Symptom:
    """What several records show alike, as the look-up gives it."""

    found: Json
    causes: list[Cause]


def causes_in(items: Iterable[Json]) -> list[str]:
    """Ids of all records that these symptoms name."""
    return [cause["record"] for item in items for cause in item["causes"]]


def symptoms_of(
    items: Iterable[Json],
    records: Mapping[str, Record],
    affected: Mapping[str, Json],
) -> list[Symptom]:
    return [
        Symptom(
            item,
            [
                Cause(records[pk], cause["tells"], affected.get(pk))
                for cause in item["causes"]
                if (pk := cause["record"]) in records
            ],
        )
        for item in items
    ]
