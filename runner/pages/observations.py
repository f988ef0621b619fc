"""What the checks of a run observed, as rows of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from kb import badges
from kb.badges import Badge
from kb.languages import current_lang

# Reserved by the contract, shown elsewhere or of no use in a table.
HIDDEN_KEYS = {"device", "mode", "not_applicable"}
COLUMNS = 4
TEXT_CHARS = 20
RAISED_CHARS = 300
# As the harness marks lines of standard error.
STDERR = "[stderr] "
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Failed)\b")


@dataclass(frozen=True)
class ObservationRow:
    check: str
    trials: int
    cells: list[Any]
    outcome: Badge
    reason: str
    # The exception below a traceback, as printed.
    raised: str


@dataclass(frozen=True)
class Observations:
    keys: list[str]
    rows: list[ObservationRow]


def group_of(check: str) -> str:
    """ "trigger 2/5" -> trigger; "workaround_x" -> workaround; so "variant_x …"."""
    name = check.split(" ")[0]
    kind = name.partition("_")[0]
    return kind if kind in ("workaround", "refuted", "variant") else name


def bug_of(header: dict[str, Any]) -> list[str]:
    bug = header.get("bug") or []
    return [bug] if isinstance(bug, str) else list(bug)


def observations_of(
    checks: list[dict[str, Any]], header: dict[str, Any]
) -> Observations:
    """A row per check, equal trials in one; the predicate's keys come first."""
    observed = [item for item in checks if item["name"] != "requirements"]
    keys = observed_keys(observed, header)
    made = (observation_row(item, keys) for item in observed)
    trials = (list(alike) for _key, alike in groupby(made, key=shown_by))
    rows = [replace(alike[-1], trials=len(alike)) for alike in trials]
    return Observations(keys, rows)


def shown_by(row: ObservationRow) -> tuple[object, ...]:
    """What equal trials have alike."""
    return row.check, row.cells, row.outcome, row.raised


def observed_keys(checks: list[dict[str, Any]], header: dict[str, Any]) -> list[str]:
    available: dict[str, None] = {}
    for item in checks:
        available |= dict.fromkeys(item.get("observations") or {})
    predicate_keys = [source.split(" ")[0] for source in bug_of(header)]
    predicate_keys += list(header.get("match") or {})
    ordered = [key for key in predicate_keys if key in available]
    ordered += [key for key in available if key not in ordered and fits(checks, key)]
    return list(dict.fromkeys(ordered))[:COLUMNS]


def fits(checks: list[dict[str, Any]], key: str) -> bool:
    """Long texts would push the numbers off the page; the log has them."""
    values = [(item.get("observations") or {}).get(key) for item in checks]
    long = any(isinstance(value, str) and len(value) > TEXT_CHARS for value in values)
    return key not in HIDDEN_KEYS and not long


def observation_row(item: dict[str, Any], keys: list[str]) -> ObservationRow:
    lang = current_lang()
    values = item.get("observations") or {}
    return ObservationRow(
        check=item["name"],
        trials=1,
        cells=[values.get(key) for key in keys],
        outcome=badges.of_check(item["name"], item["outcome"], lang),
        reason=badges.reason_text(item.get("reason"), lang),
        raised=exception(item) if item.get("reason") == "raised" else "",
    )


def exception(item: dict[str, Any]) -> str:
    """Its type and message, behind which torch may print advice; else the last line."""
    text = (item.get("log") or {}).get("text") or ""
    lines = [line.removeprefix(STDERR) for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    named = [line for line in lines if EXCEPTION.match(line)]
    return (named or lines or [""])[-1][:RAISED_CHARS]
