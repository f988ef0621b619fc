"""An operation as a command for a shell, of the examples that its schema has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

Json = Mapping[str, Any]

# In place of the address of the site that shows the page.
SITE = "SITE"


def command(method: str, path: str, entry: Json) -> str:
    """With `SITE` for the site's address; a token where none may be left out."""
    for parameter in entry.get("parameters", []):
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", example_of(parameter))
    words = ["curl", "-s", f"{SITE}{path}"]
    if {} not in entry["security"]:
        words += ["-H", "Authorization: Bearer dtn_…"]
    if method != "post":
        return " ".join(map(quoted, words))
    body = entry.get("requestBody")
    if body is None:
        return " ".join(map(quoted, [*words, "-X", "POST"]))
    words += ["-H", "Content-Type: application/json"]
    given = first(content.get("examples") for content in body["content"].values())
    data = json.dumps(given, ensure_ascii=False) if given else "@evidence.json"
    return f"{' '.join(map(quoted, words))} \\\n  -d {quoted(data)}"


def example_of(parameter: Json) -> str:
    return str(first([parameter.get("examples")]) or parameter["name"].upper())


def first(examples: Iterable[Json | None]) -> Any:
    """The value of the first example there is; None where there is none."""
    named = [one for found in examples if found for one in found.values()]
    return named[0]["value"] if named else None


def quoted(word: str) -> str:
    """As a shell needs it; the address of the site is filled in later."""
    return word if word.startswith(SITE) else shlex.quote(word)
