"""The shape of SARIF 2.1.0 as code scanning reads it, for whatever finds something."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, List, Optional, Sequence
from urllib.parse import quote

VERSION = "2.1.0"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Json = Dict[str, Any]


def log(
    rules: List[Json], results: List[Json], complete: bool, told: Sequence[Json] = ()
) -> Json:
    """One run of this tool. `complete`: whether it went through all of its work;
    `told`: what it could not do."""
    driver = {"name": "doesitnan", "semanticVersion": "1.0.0", "rules": rules}
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {"executionSuccessful": complete, "toolExecutionNotifications": list(told)}
        ],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def rule(name: str, text: str, page: str, properties: Optional[Json] = None) -> Json:
    # Code scanning asks for all three texts.
    texts = {"shortDescription": text, "fullDescription": text, "help": page or text}
    found: Json = {"id": name, **{key: {"text": texts[key]} for key in texts}}
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
    return {**file_at(path), "region": region}


def file_at(path: str) -> Json:
    return {"artifactLocation": {"uri": uri_of(path)}}


def not_read(path: str, text: str) -> Json:
    """The notification that a file was not looked at."""
    place = [{"physicalLocation": file_at(path)}]
    said = {"text": "not read: " + text}
    return {"level": "error", "message": said, "locations": place}


def uri_of(path: str) -> str:
    """The path as a reference by RFC 3986: a space, for one, is %20."""
    return quote(os.path.normpath(path).replace("\\", "/"), safe="/:")
