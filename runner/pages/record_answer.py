"""The answer strip of a record: is the chosen build affected, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from kb import wording
from kb.choices import DeviceClass
from kb.environments.environment import Environment, parse_environment
from kb.findings import remedies
from kb.findings.remedies import Remedy
from kb.languages import current_lang
from kb.models import Finding, Record
from kb.pages.reader_choice import ReaderChoice
from kb.pages.record import OnOff, on_off
from kb.versions import affected
from kb.versions.order import build_order
from runner.pages.known_builds import KnownBuilds
from runner.wording import verdicts
from runner.wording.verdicts import Badge, Wording


@dataclass(frozen=True)
class Choice:
    """A torch build to ask about: one we know by slug, else a version as typed."""

    value: str
    raw: str
    known: bool


@dataclass(frozen=True)
class RecordAnswer:
    css: str
    badge: Badge
    sentence: str
    reasons: list[str]
    preconditions: list[str]
    tested: Finding | None
    model: Finding | None
    choice: Choice | None
    choices: list[Choice]
    device: str
    devices: list[str]
    advice: Remedy | None
    onoff: OnOff | None
    answer: str


def build(record: Record, reader: ReaderChoice, builds: KnownBuilds) -> RecordAnswer:
    findings = list(record.findings.all())
    choices = known_choices(builds, findings)
    choice = chosen(reader.torch, choices, findings)
    if choice and not choice.known:
        choices = [choice, *choices]
    devices = device_classes(record, findings)
    device = reader.device if reader.device in devices else devices[0]
    own = [row for row in findings if choice and row.build == choice.value]
    return assemble(record, findings, own, choice, choices, device, devices)


def assemble(
    record: Record,
    findings: list[Finding],
    own: list[Finding],
    choice: Choice | None,
    choices: list[Choice],
    device: str,
    devices: list[str],
) -> RecordAnswer:
    lang = current_lang()
    fresh = [row for row in own if row.is_fresh_verdict and row.device_class == device]
    tested = next((row for row in fresh if not row.is_model), None)
    documented = affected.answer_for(record, environment_of(choice), findings)
    css, badge, sentence = (
        tested_words(tested, lang)
        if tested
        else inferred_words(documented.answer, choice, lang)
    )
    advice = remedies.best(remedies.of_record(record, findings))
    name = str(advice.entry["name"]) if advice else ""
    return RecordAnswer(
        css=css,
        badge=badge,
        sentence=sentence,
        reasons=[] if tested else [reason[lang] for reason in documented.reasons],
        preconditions=[item["text"][lang] for item in record.preconditions],
        tested=tested,
        model=next((row for row in fresh if row.is_model), None),
        choice=choice,
        choices=choices,
        device=device,
        devices=devices,
        advice=advice,
        onoff=workaround_evidence(name, findings, choice),
        answer=documented.answer,
    )


def known_choices(builds: KnownBuilds, findings: list[Finding]) -> list[Choice]:
    """Builds this site knows, newest version first."""
    raw = {build.slug: build.raw for build in builds.builds}
    raw |= {row.build: row.build_raw for row in findings}
    ordered = sorted(raw, key=lambda slug: build_order(raw[slug], slug), reverse=True)
    return [Choice(slug, raw[slug], known=True) for slug in ordered]


def chosen(torch: str, choices: list[Choice], findings: list[Finding]) -> Choice | None:
    """The requested slug or raw version; else the newest build with a verdict."""
    if torch:
        for choice in choices:
            if torch in (choice.value, choice.raw):
                return choice
        return Choice(torch, torch, known=False)
    judged = {
        row.build for row in findings if row.is_fresh_verdict and not row.is_model
    }
    with_verdict = [choice for choice in choices if choice.value in judged]
    return next(iter(with_verdict or choices), None)


def device_classes(record: Record, findings: list[Finding]) -> list[str]:
    """Devices with a result, then those a repro asks for; never empty."""
    devices = [row.device_class for row in findings if not row.stale]
    devices += [repro.device for repro in record.repros.all()]
    return list(dict.fromkeys(devices)) or [DeviceClass.CPU.value]


def environment_of(choice: Choice | None) -> Environment:
    return parse_environment(f"torch=={choice.raw}" if choice else "")


def tested_words(row: Finding, lang: str) -> tuple[str, Badge, str]:
    badge = verdicts.badge(
        row.verdict, row.hits, row.trials, row.fidelity, lang, row.verdict_reason
    )
    sentence = verdicts.sentence(
        verdict=row.verdict,
        reason=row.verdict_reason or row.reason,
        hits=row.hits,
        trials=row.trials,
        fidelity=row.fidelity,
        build=row.build_raw,
        device=verdicts.device_words(row.device_class, row.device_name),
        lang=lang,
    )
    return verdicts.answer_css(row.verdict), badge, sentence


UNKNOWN = Wording(wording.UNKNOWN_BADGE, run=False)
ANSWER_CSS = {("affected", True): "v-fail", ("not_affected", True): "v-pass"}
# Rows are (answer, was this exact build run).
ANSWERS = {
    row: Wording(said, ANSWER_CSS.get(row, "v-none"), run=row in ANSWER_CSS)
    for row, said in wording.ANSWER_BADGES.items()
}


def inferred_words(
    answer: str, choice: Choice | None, lang: str
) -> tuple[str, Badge, str]:
    """Words for a build that was not run: what the documentation implies."""
    if choice is None:
        return "", UNKNOWN.badge(lang), wording.NO_BUILD[lang]
    sentence = wording.NOT_RUN[answer][lang].format(build=choice.raw)
    if answer == "unknown":
        return "", UNKNOWN.badge(lang), sentence
    css = "fail" if answer == "affected" else "pass"
    return css, answer_badge(answer, "none", lang), sentence


def answer_badge(answer: str, basis: str, lang: str) -> Badge:
    """One of the five answers to "am I affected"."""
    return ANSWERS.get((answer, basis == "tested_build"), UNKNOWN).badge(lang)


def workaround_evidence(
    name: str, findings: list[Finding], choice: Choice | None
) -> OnOff | None:
    """With and without it on the chosen build, else on the newest that has both."""
    rows = [row for row in findings if row.check_name == f"workaround_{name}"]
    return on_off(rows, findings, choice.value if choice else "")
