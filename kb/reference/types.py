"""A schema of OpenAPI in few words: "integer, 1 to 20", "list of Run"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

REF = "#/components/schemas/"
NAMES = {"array": "list", "object": "object"}


@dataclass(frozen=True)
class Type:
    """`words`, then the name of a shape that the page has, then what bounds it.

    `choices` are the only values there are.
    """

    words: str
    shape: str = ""
    bounds: str = ""
    choices: tuple[str, ...] = ()


def type_of(schema: Json) -> Type:
    if "$ref" in schema:
        return Type("", schema["$ref"].removeprefix(REF))
    for key in ("oneOf", "anyOf", "allOf"):
        if key in schema:
            return any_of([type_of(part) for part in schema[key]])
    if schema.get("type") == "array":
        item = type_of(schema.get("items", {}))
        words = " ".join(filter(None, ["list of", item.words]))
        if not (item.words or item.shape):
            words = "list"
        return Type(words, item.shape, item.bounds, item.choices)
    kinds = schema.get("type", "")
    words = " | ".join(kinds) if isinstance(kinds, list) else kinds
    choices = tuple(str(value) for value in schema.get("enum", []) if value is not None)
    return Type(words or ("" if choices else "any"), "", bounds_of(schema), choices)


def any_of(parts: list[Type]) -> Type:
    """Of several the one that says most, with "null" where it may be that."""
    known = [part for part in parts if part.words != "null"]
    may_be_null = len(known) < len(parts)
    first = next((part for part in known if part.shape), (known or parts)[0])
    if not may_be_null:
        return first
    bounds = ", ".join(filter(None, [first.bounds, "null"]))
    return Type(first.words, first.shape, bounds, first.choices)


def bounds_of(schema: Json) -> str:
    said = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        said.append(f"{low}–{high}")
    elif low is not None:
        said.append(f"≥ {low}")
    elif high is not None:
        said.append(f"≤ {high}")
    if schema.get("maxLength"):
        said.append(f"≤ {schema['maxLength']:,}")
    if schema.get("format"):
        said.append(schema["format"])
    if "default" in schema:
        said.append(f"= {str(schema['default']).lower()}")
    return ", ".join(said)
