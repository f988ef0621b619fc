"""Documents of findings against the official schema of SARIF 2.1.0, kept unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema

from tests import TESTS

SCHEMA = TESTS / "support" / "sarif" / "sarif-schema-2.1.0.json"
# RFC 3986, by its characters: to check it as the format it is needs a package.
REFERENCE = re.compile(r"(?:[\w.~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-F]{2})*", re.ASCII)


def problems(document: Any) -> list[str]:
    """What is wrong with a document, each with its place; empty where it is valid."""
    errors = [
        f"{error.json_path}: {error.message}"
        for error in validator().iter_errors(document)
    ]
    return errors + [uri for uri in uris(document) if not REFERENCE.fullmatch(uri)]


@cache
def validator() -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text("utf-8")))


def uris(document: Any) -> Iterator[str]:
    """Every `uri` and `helpUri`, however deep."""
    if isinstance(document, list):
        for item in document:
            yield from uris(item)
    elif isinstance(document, dict):
        for key, value in document.items():
            if key in ("uri", "helpUri", "$schema"):
                yield value
            else:
                yield from uris(value)
