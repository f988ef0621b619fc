"""What a check does, and what came out of it, in words. Pure.

The name of a check is for its author; a reader gets the record's own text for it
(`[[check]]` of issue.toml), else words that hold of every check of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb import wording
from kb.languages import Text
from kb.models import Record

KINDS = ("workaround", "refuted")
# What has {"en": …, "zh": …}.
Words = Text | Mapping[str, str]


def kind_of(check: str) -> str:
    """ "workaround" of workaround_x, "refuted" of refuted_x; else the name itself."""
    kind, _mark, _rest = check.partition("_")
    return kind if kind in KINDS else check


def title_of(record: Record, check: str) -> Words:
    """What the check does, as a heading: "Float32 throughout, nothing is cast"."""
    for entry in record.check_titles:
        if entry["name"] == check:
            words: Mapping[str, str] = entry["text"]
            return words
    kind = kind_of(check)
    if kind in wording.CHECKS:
        return wording.CHECKS[kind]
    name = check.removeprefix(f"{kind}_").replace("_", " ")
    return dict.fromkeys(("en", "zh"), name)


def came_out(check: str, outcome: str, *, modelled: bool = False) -> Text | None:
    """What a bug or its absence means in this check; None for any other outcome."""
    if modelled:
        return wording.MODELLED.get(outcome)
    kind = kind_of(check)
    return wording.CAME_OUT.get((kind if kind in KINDS else "", outcome))
