"""The rules of the published records of a checkout: no site, no database."""

from __future__ import annotations

import os
from typing import Any, Dict, List

Json = Dict[str, Any]
# What a rule has besides where it comes from.
RULE_KEYS = ("name", "severity", "message", "step", "unless", "at", "fix", "written")


def rule_document(record: str, title: Json, page: str, rule: Json) -> Json:
    """A rule as it travels, with the record that it belongs to."""
    found = {key: rule[key] for key in RULE_KEYS if key in rule}
    return {"record": record, "title": title, "page": page, **found}


def rules_of(folder: str) -> List[Json]:
    """Of every issue.toml below a folder, by record. Raises OSError, ValueError."""
    import tomllib  # Python 3.11, which a checkout needs; a file taken away does not

    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "issue.toml")
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            facts = tomllib.load(file)
        if facts["publication"] == "published":
            found += [
                rule_document(facts["id"], facts["title"], "", rule)
                for rule in facts.get("rule", [])
            ]
    return sorted(found, key=lambda rule: (rule["record"], rule["name"]))
