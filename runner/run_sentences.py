"""What runs, evidence and refused values say of themselves, in both languages."""

from __future__ import annotations

from typing import Any

from kb import wording as words
from kb.badges import device_words, sentence
from kb.languages import COLON, DJANGO_LANG, SEMICOLON
from portable import harness
from runner import parameters
from runner.models import Run


def evidence_sentence(body: dict[str, Any]) -> dict[str, str]:
    """The sentence of an evidence object, in both languages."""
    device = body["device"]
    return {
        lang: sentence(
            verdict=body["verdict"],
            reason=body["reason"],
            hits=body["hits"] or 0,
            trials=body["trials"] or 0,
            fidelity=body["repro"]["fidelity"],
            build=body["build"]["raw"],
            device=device_words(device["class"], device["name"]),
            lang=lang,
            values=parameters.settings_of_values(body.get("parameters", {})),
        )
        for lang in DJANGO_LANG
    }


def run_sentence(run: Run) -> dict[str, str]:
    """The sentence of a run in any state, in both languages."""
    if run.state != Run.State.FINISHED:
        waits_again = run.state == Run.State.QUEUED and run.attempt > 0
        return dict(words.REQUEUED if waits_again else words.STATE_SENTENCES[run.state])
    if run.evidence:
        return evidence_sentence(run.evidence.body)
    return {
        lang: sentence(
            verdict=str(run.verdict),
            reason=run.reason,
            hits=run.hits or 0,
            trials=run.trials,
            fidelity=run.repro.fidelity,
            build=run.build.raw,
            device=run.device,
            lang=lang,
        )
        for lang in DJANGO_LANG
    }


def refused_values(error: harness.ParameterError, lang: str) -> list[tuple[str, str]]:
    """(parameter, what is wrong with its value) of each that is at fault."""
    return [
        (name, words.REFUSED_VALUES[code][lang].format(**facts))
        for name, code, facts in error.problems
    ]


def refused_values_said(error: harness.ParameterError, lang: str) -> str:
    """The same in one line."""
    return SEMICOLON[lang].join(map(COLON[lang].join, refused_values(error, lang)))
