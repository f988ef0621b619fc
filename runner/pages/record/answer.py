"""Whether the build that a reader names has the bug of a record."""

from __future__ import annotations

from dataclasses import dataclass

from kb import badges, wording
from kb.badges import Badge
from kb.choices import JUDGED, Verdict
from kb.environments.environment import parse_environment
from kb.findings.remedies import TORCH
from kb.languages import current_lang
from kb.models import Finding, Record
from kb.versions import affected, runs
from kb.versions.ranges import AFFECTED, UNKNOWN as UNKNOWN_ANSWER
from portable import harness
from runner.pages.record.opening import Choice, Opening

# Why a build cannot apply that say nothing of the build itself.
HARDWARE = ("device", "capability", "memory", "devices")


@dataclass(frozen=True)
class RecordAnswer:
    css: str
    badge: Badge
    sentence: str
    reasons: list[str]
    tested: Finding | None
    # Run there, but it could not apply for want of a device.
    inapplicable: Finding | None
    model: Finding | None
    choice: Choice | None
    choices: list[Choice]
    device: str
    devices: list[str]


def build(record: Record, opening: Opening) -> RecordAnswer:
    lang = current_lang()
    findings = list(record.findings.all())
    choice, device = opening.asked, opening.device
    fresh = verdicts_on(findings, choice, device)
    ran = next((row for row in fresh if not row.is_model), None)
    inapplicable = ran if ran and lacks_hardware(ran) else None
    tested = None if inapplicable else ran
    env = parse_environment(f"torch=={choice.raw}" if choice else "")
    documented = affected.answer_for(record, env, findings)
    answer = documented.answer if choice else documented_answer(record)
    css, badge, sentence = (
        tested_words(tested, lang)
        if tested
        else inferred_words(answer, choice, device, lang)
    )
    if not choice and any(row.verdict in JUDGED for row in findings):
        # The strip says where the bug was seen.
        css = sentence = ""
    reasons = documented.reasons if choice and not tested else []
    return RecordAnswer(
        css=css,
        badge=badge,
        sentence=sentence,
        reasons=[reason[lang] for reason in reasons],
        tested=tested,
        inapplicable=inapplicable,
        model=next((row for row in fresh if row.is_model), None),
        choice=choice,
        choices=opening.choices,
        device=device,
        devices=opening.devices,
    )


def verdicts_on(
    findings: list[Finding], choice: Choice | None, device: str
) -> list[Finding]:
    return [
        row
        for row in findings
        if choice
        and row.build == choice.value
        and row.is_fresh_verdict
        and row.device_class == device
    ]


def lacks_hardware(row: Finding) -> bool:
    """The build could not be asked here: that is no answer for the reader's machine."""
    unmet = row.verdict == Verdict.NOT_APPLICABLE
    return unmet and row.verdict_reason.partition(":")[0] in HARDWARE


def documented_answer(record: Record) -> str:
    """Without a build: whether any version of torch is documented as affected."""
    named = [entry for entry in record.affected if entry["package"] == TORCH]
    ranges = any(
        entry["events"] or AFFECTED in (row["state"] for row in entry.get("builds", []))
        for entry in named
    )
    return AFFECTED if ranges else UNKNOWN_ANSWER


def tested_words(row: Finding, lang: str) -> tuple[str, Badge, str]:
    badge = badges.of_finding(row, lang)
    shown = {
        "verdict": row.verdict,
        "reason": row.verdict_reason or row.reason,
        "hits": row.hits,
        "trials": row.trials,
        "repro": {"fidelity": row.fidelity},
        "build": {"raw": runs.version_words(row).removeprefix("torch ")},
        "device": {"class": row.device_class, "name": row.device_name},
    }
    sentence = harness.sentence(badges.SENTENCE_WORDS, shown, lang)
    return badges.answer_css(row.verdict), badge, sentence


def inferred_words(
    answer: str, choice: Choice | None, device: str, lang: str
) -> tuple[str, Badge, str]:
    """Words for a build that was not run: what the documentation implies."""
    words = (wording.NOT_RUN if choice else wording.NEVER_RUN)[answer]
    where = wording.ON_DEVICE[device][lang]
    sentence = words[lang].format(build=choice.raw if choice else "", device=where)
    if answer == "unknown":
        return "", badges.UNKNOWN.badge(lang), sentence
    css = "fail" if answer == "affected" else "pass"
    return css, badges.answer_badge(answer, "none", lang), sentence
