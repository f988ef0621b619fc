"""What a child says of a capture, read as what a stranger says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kb import wording
from portable import harness
from runner.captures.program import CHECK
from runner.models import CaptureRun

Outcome = CaptureRun.Outcome
# As `nan_probe capture.json --json` says them.
BAD = 1
OUTCOMES = {0: Outcome.FINITE, 125: Outcome.NOT_APPLICABLE}
MOST_CHARS, MOST_FORMS = 300, 20
WAYS = ("nan", "inf", "finite", "absent", "same", "differs")


def is_text(value: Any) -> bool:
    """One that a database keeps and a page shows: no NUL, no half of a character."""
    is_short = isinstance(value, str) and len(value) <= MOST_CHARS
    return is_short and harness.visible(value) == value


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_forms(value: Any) -> bool:
    is_list = isinstance(value, list) and len(value) <= MOST_FORMS
    return is_list and all(map(is_text, value))


def is_class(value: Any) -> bool:
    return is_text(value) and value in wording.CAPTURE_CLASSES


def is_ways(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= wording.CAPTURE_WAYS.keys():
        return False
    return all(is_text(one) and one in WAYS for one in value.values())


# What is kept of its answer, and what each may be.
FIELDS = {
    **dict.fromkeys(("said", "law", "digest"), is_text),
    **dict.fromkeys(("total", "nan", "inf"), is_count),
    **dict.fromkeys(("heals", "does_not_heal"), is_forms),
    "class": is_class,
    "ways": is_ways,
}


@dataclass(frozen=True)
class Shown:
    outcome: str
    reason: str = ""
    found: dict[str, Any] = field(default_factory=dict)


def shown_by(header: harness.Header, report: harness.Report) -> Shown:
    """The outcome of a report, an error where the child said nothing usable."""
    outcome, reason, _ = harness.examine(header, report, CHECK)
    if outcome not in ("bug", "clean"):
        return Shown(Outcome.ERROR, reason or "no_report")
    told = harness.reported_observations(report)
    try:
        said = json.loads(told["answer"])
        found = {name: said[name] for name in FIELDS if name in said}
    except (ValueError, KeyError, TypeError, RecursionError):
        return Shown(Outcome.ERROR, "channel")
    if not all(FIELDS[name](value) for name, value in found.items()):
        return Shown(Outcome.ERROR, "channel")
    if isinstance(told.get("is_theirs"), bool):
        found["is_theirs"] = told["is_theirs"]
    return judged(told["status"], found)


def judged(status: Any, found: dict[str, Any]) -> Shown:
    if status == BAD:
        bad = Outcome.INF if found.get("inf") else None
        bad = Outcome.NAN if found.get("nan") else bad
        return Shown(bad, "", found) if bad else Shown(Outcome.ERROR, "channel")
    if status in OUTCOMES:
        return Shown(OUTCOMES[status], "", found)
    return Shown(Outcome.ERROR, "raised", found)
