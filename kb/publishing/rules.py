"""The rules of the records that readers see."""

from __future__ import annotations

from typing import Any

from kb.addresses import absolute
from kb.models import Record
from kb.rules.checkout import rule_document

Json = dict[str, Any]


def published_rules() -> list[Json]:
    """As they travel, by record and name."""
    rows = Record.objects.visible().exclude(rules=[])
    known = rows.values_list("id", "title_en", "title_zh", "rules").order_by("id")
    site = absolute("")
    return [
        rule_document(
            key, {"en": en, "zh": zh}, absolute(f"/{key}") if site else "", rule
        )
        for key, en, zh, rules in known
        for rule in sorted(rules, key=lambda rule: str(rule["name"]))
    ]
