"""What a run shows otherwise than the one before it, of the same repro and build."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from kb.languages import current_lang
from runner import badges
from runner.models import Evidence
from runner.pages import environment_facts

SHOWN = 12


@dataclass(frozen=True)
class Change:
    """One thing that differs: of which check or fact, which of it, before and now."""

    of: str
    key: str
    before: Any
    now: Any


@dataclass(frozen=True)
class Difference:
    """Everything that differs from `earlier`; `more` did not fit."""

    earlier: Evidence
    same_verdict: bool
    changes: list[Change]
    more: int


def since_last(evidence: Evidence) -> Difference | None:
    """None where nobody ran this repro on this build before."""
    earlier = (
        Evidence.objects.filter(
            record=evidence.record_id,
            repro_name=evidence.repro_name,
            build=evidence.build_id,
            device_class=evidence.device_class,
            started_at__lt=evidence.started_at,
        )
        .order_by("-started_at")
        .first()
    )
    if earlier is None or evidence.record_id is None:
        return None
    changes = list(differences(earlier.body, evidence.body))
    return Difference(
        earlier=earlier,
        same_verdict=earlier.verdict == evidence.verdict,
        changes=changes[:SHOWN],
        more=len(changes[SHOWN:]),
    )


def differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    """Verdict, outcomes and environment before the numbers, which vary the most."""
    if (verdict_of(before), before["reason"]) != (verdict_of(now), now["reason"]):
        yield Change(_("verdict"), "", verdict_of(before), verdict_of(now))
    yield from in_outcomes(before, now)
    yield from in_environment(before, now)
    yield from in_observations(before, now)


def verdict_of(body: dict[str, Any]) -> str:
    return str(
        badges.badge(
            body["verdict"],
            body["hits"] or 0,
            body["trials"] or 0,
            body["repro"]["fidelity"],
            current_lang(),
            body["reason"] or "",
        )
    )


def checks_of(body: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(item["name"], item["trial"]): item for item in body["checks"]}


def in_outcomes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    """Of checks that both runs reached."""
    earlier, lang = checks_of(before), current_lang()
    for at, check in checks_of(now).items():
        if at in earlier and earlier[at]["outcome"] != check["outcome"]:
            words = [
                badges.outcome(check["name"], found["outcome"], lang)
                for found in (earlier[at], check)
            ]
            yield Change(name_of(*at, now), _("outcome"), *words)


def name_of(check: str, trial: int, body: dict[str, Any]) -> str:
    many = sum(item["name"] == check for item in body["checks"]) > 1
    return f"{check} {trial + 1}" if many else check


def in_environment(before: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    earlier = facts_of(before)
    for term, words in facts_of(now).items():
        if earlier[term] != words:
            yield Change(term, "", earlier[term], words)


def facts_of(body: dict[str, Any]) -> dict[str, str]:
    facts = dict(environment_facts.short(body))
    # Whether a parent was warm says nothing of the bug, and durations always differ.
    del facts[_("served")]
    facts[_("sandbox")] = [body["tier"]]
    return {term: ", ".join(map(str, words)) for term, words in facts.items()}


def in_observations(before: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    """Values that do not read alike; a table shows six digits of a number."""
    earlier = checks_of(before)
    for at, check in checks_of(now).items():
        was = (earlier.get(at) or {}).get("observations") or {}
        for key, value in (check.get("observations") or {}).items():
            if key in was and as_read(was[key]) != as_read(value):
                yield Change(name_of(*at, now), key, was[key], value)


def as_read(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return [as_read(item) for item in value]
    return value
