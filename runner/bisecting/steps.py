"""The steps of a bisection: plain data, kept in its row, from which it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.utils import timezone

from kb.models import Finding, Repro
from runner.bisecting import search, subject
from runner.bisecting.search import Turn
from runner.bisecting.subject import Subject
from runner.models import Bisection, Run

# How a build answered: by what was known, by a run for this, or not at all.
EVIDENCE, RUN, NOTHING = "evidence", "run", "nothing"
Step = dict[str, Any]


def of_finding(slug: str, row: Finding) -> Step:
    return {
        **named(slug, EVIDENCE),
        "verdict": row.verdict,
        "reason": row.verdict_reason,
        "hits": row.hits,
        "trials": row.trials,
        "evidence": row.evidence,
    }


def of_run(run: Run) -> Step:
    """A run that is over. Cancelled or lost, it says nothing about the build."""
    cancelled = run.state == Run.State.CANCELLED
    return {
        **named(run.build_id, RUN),
        "verdict": run.verdict or "",
        "reason": run.reason or ("cancelled" if cancelled else ""),
        "hits": run.hits or 0,
        "trials": run.trials,
        "evidence": run.evidence_id or "",
        "run": str(run.pk),
    }


def not_asked(name: str, reason: str) -> Step:
    return {**named(name, NOTHING), "reason": reason[:200]}


def named(slug: str, how: str) -> Step:
    return {
        **{"build": slug, "how": how, "answer": search.UNKNOWN},
        **{"verdict": "", "reason": "", "hits": 0, "trials": 0},
        **{"evidence": "", "run": ""},
    }


def subject_of(row: Bisection, repro: Repro) -> Subject:
    """What is known now, and before all what the steps of this bisection showed."""
    offered, slugs = row.offered or (), row.installed
    found = subject.subject_of(repro, row.device, offered=offered, slugs=slugs)
    for step in row.steps:
        if step["how"] != EVIDENCE:
            found.asked[step["build"]] = step["trials"]
        if step["verdict"]:
            found.known[step["build"]] = finding_of(step, found)
    return found


def finding_of(step: Step, known: Subject) -> Finding:
    """As a step keeps it; never saved."""
    return Finding(
        build=step["build"],
        build_raw=known.raw.get(step["build"], ""),
        verdict=step["verdict"],
        verdict_reason=step["reason"],
        hits=step["hits"],
        trials=step["trials"],
        evidence=step["evidence"],
        observed_at=timezone.now(),
    )


def completed(steps: Iterable[Step], known: Subject, used: Sequence[str]) -> list[Step]:
    """With what was `used` of the evidence, and what each answer is as of now.

    A bug that turned out uncertain makes too few clean trials unknown, also earlier
    ones.
    """
    found = list(steps)
    there = {step["build"] for step in found}
    for name in used:
        slug = known.slug(name)
        if slug not in there and (row := known.known.get(slug)):
            found.append(of_finding(slug, row))
    uncertain = search.is_uncertain(known.hits)
    return [
        {
            **step,
            "answer": search.answer_of(
                step["verdict"], step["trials"], uncertain=uncertain
            ),
        }
        for step in found
    ]


def named_turn(known: Subject, turn: Turn) -> Turn:
    """With builds in place of the releases that were installed for it."""
    return replace(
        turn,
        before=known.slug(turn.before),
        after=known.slug(turn.after),
        unknown=[known.slug(name) for name in turn.unknown],
        instead={known.slug(end): known.slug(to) for end, to in turn.instead.items()},
    )
