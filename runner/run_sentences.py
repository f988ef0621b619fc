"""What runs, evidence and refused values say of themselves, in both languages."""

from __future__ import annotations

from typing import Any

from kb import wording as words
from kb.badges import SENTENCE_WORDS
from kb.languages import COLON, DJANGO_LANG, SEMICOLON
from portable import harness
from runner.models import Run


def evidence_sentence(body: dict[str, Any]) -> dict[str, str]:
    """The sentence of an evidence object, in both languages."""
    return {lang: harness.sentence(SENTENCE_WORDS, body, lang) for lang in DJANGO_LANG}


def run_sentence(run: Run) -> dict[str, str]:
    """The sentence of a run in any state, in both languages."""
    if run.state != Run.State.FINISHED:
        waits_again = run.state == Run.State.QUEUED and run.attempt > 0
        return dict(words.REQUEUED if waits_again else words.STATE_SENTENCES[run.state])
    if run.evidence:
        return evidence_sentence(run.evidence.body)
    return evidence_sentence(
        {
            "verdict": run.verdict,
            "reason": run.reason,
            "hits": run.hits,
            "trials": run.trials,
            "repro": {"fidelity": run.repro.fidelity},
            "build": {"raw": run.build.raw},
            "device": {"class": run.device, "name": None},
        }
    )


def refused_values(error: harness.ParameterError, lang: str) -> list[tuple[str, str]]:
    """(parameter, what is wrong with its value) of each that is at fault."""
    return [
        (name, words.REFUSED_VALUES[code][lang].format(**facts))
        for name, code, facts in error.problems
    ]


def refused_values_said(error: harness.ParameterError, lang: str) -> str:
    """The same in one line."""
    return SEMICOLON[lang].join(map(COLON[lang].join, refused_values(error, lang)))
