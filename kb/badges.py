"""Badges and sentences of verdicts and checks, made of the words of `kb.wording`.

Where a function takes `lang`, it is "en" or "zh"; the API gives both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from kb import wording as words
from kb.choices import JUDGED, Fidelity, Outcome, Verdict
from kb.languages import Text
from kb.wording import Said
from portable import harness

SHAPE_CSS = {
    "✖": "sh-x",
    "✔": "sh-y",
    "∅": "sh-n",
    "▲": "sh-e",
    "◇": "sh-m",
    "◌": "sh-u",
    "⋯": "sh-i",
}


@dataclass(frozen=True)
class Badge:
    """A verdict in its short form: shape, bold word, the rest, (k/n)."""

    shape: str
    css: str
    word: str
    rest: str
    counts: str = ""

    def __str__(self) -> str:
        rest = f" · {self.rest}" if self.word and self.rest else self.rest
        gap = " " if self.counts.startswith("(") else ""
        return f"{self.shape} {self.word}{rest}{gap}{self.counts}"


@dataclass(frozen=True)
class Wording:
    """A badge without its counts, in any language.

    Bold is what stands before " · ", or all of it where nothing follows; of what was
    not run, nothing. `reason` fills the {reason} of the text.
    """

    said: Said
    css: str = "v-none"
    counted: bool = False
    reason: Text | None = None
    run: bool = True

    def badge(self, lang: str, counts: str = "") -> Badge:
        shape, text = self.said
        whole = text[lang].format(reason=self.reason[lang] if self.reason else "")
        word, mark, rest = whole.partition(" · ")
        if not (mark or self.run):
            word, rest = "", word
        return Badge(shape, self.css, word, rest, counts if self.counted else "")


PRESENT = Wording(words.BADGES["bug_present"], "v-fail", counted=True)
ABSENT = Wording(words.BADGES["bug_absent"], "v-pass", counted=True)
NOT_APPLICABLE = Wording(words.BADGES["not_applicable"])
ERROR = Wording(words.BADGES["error"], "v-error")
INCONCLUSIVE = {
    reason: Wording(words.BADGES["inconclusive"], "v-error", reason=text)
    for reason, text in words.MISBEHAVED.items()
}
MODEL_SHOWN = Wording(words.MODEL_BADGES["bug_present"], counted=True)
MODEL_NOT_SHOWN = Wording(words.MODEL_BADGES["bug_absent"], counted=True)
UNTESTED = Wording(words.BADGES["untested"], run=False)
LIKELY = {affected: Wording(said, run=False) for affected, said in words.LIKELY.items()}

UNKNOWN = Wording(words.UNKNOWN_BADGE, run=False)
CSS_OF_ANSWER = {("affected", True): "v-fail", ("not_affected", True): "v-pass"}
# Rows are (answer, was this exact build run).
ANSWERS = {
    row: Wording(said, CSS_OF_ANSWER.get(row, "v-none"), run=row in CSS_OF_ANSWER)
    for row, said in words.ANSWER_BADGES.items()
}

ANSWER_CSS: dict[str, str] = {
    Verdict.BUG_PRESENT: "fail",
    Verdict.BUG_ABSENT: "pass",
    Verdict.NOT_APPLICABLE: "",
}


def answer_css(verdict: str) -> str:
    """The class that tints what answers "am I affected"."""
    return ANSWER_CSS.get(verdict, "error")


def counts(hits: int, trials: int, lang: str) -> str:
    """(k/n), in the brackets of the language."""
    return f"（{hits}/{trials}）" if lang == "zh" else f"({hits}/{trials})"


def wording(verdict: str, fidelity: str, reason: str = "") -> Wording:
    model = fidelity == Fidelity.MECHANISM_MODEL
    if verdict == Verdict.BUG_PRESENT:
        return MODEL_SHOWN if model else PRESENT
    if verdict == Verdict.BUG_ABSENT:
        return MODEL_NOT_SHOWN if model else ABSENT
    if verdict == Verdict.NOT_APPLICABLE:
        return NOT_APPLICABLE
    if verdict == Verdict.INCONCLUSIVE:
        return INCONCLUSIVE.get(reason, INCONCLUSIVE["control"])
    return ERROR


@lru_cache(maxsize=1000)
def badge(
    verdict: str, hits: int, trials: int, fidelity: str, lang: str, reason: str = ""
) -> Badge:
    """The badge of a verdict; `reason` matters for an inconclusive one only."""
    return wording(verdict, fidelity, reason).badge(lang, counts(hits, trials, lang))


def of_finding(row: Any, lang: str) -> Badge:
    """The verdict that a `kb.Finding` is of, as a matrix says it, with its counts."""
    told = row.verdict, row.hits, row.trials, row.fidelity
    found = badge(*told, lang, row.verdict_reason)
    if row.is_model and row.verdict in JUDGED:
        return found
    return replace(found, word=words.STANDINGS[row.verdict][lang], rest="")


def of_result(found: Mapping[str, Any], fidelity: str, lang: str) -> Badge:
    """Of the body of evidence, or of a cell of a sweep."""
    hits, trials = found["hits"] or 0, found["trials"] or 0
    return badge(found["verdict"], hits, trials, fidelity, lang, found["reason"] or "")


def sent(verdict: str, origin: str, lang: str) -> Badge:
    """Evidence that somebody sent; the whole says what it shows."""
    shape, text = words.SENT.get(verdict, words.SENT["other"])
    word, _mark, rest = text[lang].format(origin=origin).partition(" · ")
    return Badge(shape, "v-none", word, rest)


def faced(badge: Badge, evidence: Any, lang: str) -> Badge:
    """The badge of one evidence. What was sent does not look like a verdict of ours."""
    return sent(evidence.verdict, evidence.origin, lang) if evidence.is_sent else badge


def untested(lang: str) -> Badge:
    return UNTESTED.badge(lang)


def likely(affected: bool, lang: str) -> Badge:
    """Not run: a documented range or tested neighbours say so."""
    return LIKELY[affected].badge(lang)


# What the sentences of runs are made of; what is taken away carries the same.
SENTENCE_WORDS: dict[str, Any] = {
    "sentences": words.SENTENCES,
    "model": words.MODEL_SENTENCE,
    "at_values": words.AT_VALUES,
    "sometimes": words.SOMETIMES,
    "reasons": words.REASONS,
    "limits": words.LIMITS,
}


def reason_text(reason: str | None, lang: str) -> str:
    """A reason in words, e.g. of "crash:SIGSEGV"; "" for none."""
    return harness.reason_text(SENTENCE_WORDS, reason, lang)


def answer_badge(answer: str, basis: str, lang: str) -> Badge:
    """One of the five answers to "am I affected"."""
    return ANSWERS.get((answer, basis == "tested_build"), UNKNOWN).badge(lang)


def outcome(check: str, found: str, lang: str) -> str:
    """The outcome of one check in a word; requirements are met, a detector fires."""
    if check == "requirements" and found == Outcome.CLEAN:
        return words.MET[lang]
    if check == "detector" and found == "bug":
        return words.FIRES[lang]
    return words.CELLS[found][lang]


# What shows nothing of the bug as long as it behaves.
GATES = ("requirements", "reference", "control", "detector")
OUTCOME_LOOKS = {
    Outcome.BUG: ("✖", "v-fail"),
    Outcome.CLEAN: ("✔", "v-pass"),
    Outcome.NOT_APPLICABLE: ("∅", "v-none"),
    Outcome.ERROR: ("▲", "v-error"),
}


def of_check(check: str, found: str, lang: str) -> Badge:
    """How one check came out; a gate that behaves has neither shape nor colour."""
    shape, css = OUTCOME_LOOKS[Outcome(found)]
    if check in GATES and found in (Outcome.BUG, Outcome.CLEAN):
        behaves = (found == Outcome.BUG) == (check == "detector")
        shape, css = ("", "") if behaves else OUTCOME_LOOKS[Outcome.ERROR]
    return Badge(shape, css, outcome(check, found, lang), "")


def state(found: str, lang: str) -> str:
    return words.STATES[found][lang]


def workaround(found: str, lang: str) -> tuple[str, str]:
    """The shape and the words of a workaround's status."""
    shape, text = words.WORKAROUNDS[found]
    return shape, text[lang]
