"""The shape of SARIF 2.1.0 as code scanning reads it, for whatever finds something."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Optional
from urllib.parse import quote

VERSION = "2.1.0"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Json = Dict[str, Any]


def log(rules: List[Json], results: List[Json], complete: bool) -> Json:
    """One run of this tool. `complete`: whether it went through all of its work."""
    driver = {"name": "doesitnan", "semanticVersion": "1.0.0", "rules": rules}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": complete}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def rule(name: str, text: str, page: str, properties: Optional[Json] = None) -> Json:
    found: Json = {"id": name, "shortDescription": {"text": text}}
    if properties:
        found["properties"] = properties
    if page:
        found["helpUri"] = page
    return found


def result(
    name: str, level: str, text: str, place: Json, same_as: List[str], more: Json
) -> Json:
    """`same_as`: what is equal in two runs that find the same."""
    digest = hashlib.sha256("\n".join(same_as).encode("utf-8")).hexdigest()[:32]
    return {
        "ruleId": name,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"doesitnan/v1": digest},
        **more,
    }


def place_of(path: str, region: Json) -> Json:
    return {"artifactLocation": {"uri": uri_of(path)}, "region": region}


def uri_of(path: str) -> str:
    """The path as a reference by RFC 3986: a space, for one, is %20."""
    return quote(path.replace("\\", "/"), safe="/:")
