"""Is this environment affected? Answers are three-valued, with reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from kb.choices import AffectedWhen, Verdict
from kb.environments import hardware
from kb.environments.environment import Environment
from kb.environments.package_lines import canonical
from kb.models import Finding, Record
from kb.versions.doubts import missing_there, unconfirmed_fixes, unreported_device
from kb.versions.ranges import (
    AFFECTED,
    NOT_AFFECTED,
    UNKNOWN,
    BuildVersion,
    in_range,
    is_same_build,
    parse_version,
)
from kb.versions.reasons import Reason, reason

TESTED, LISTED, RANGE, NONE = "tested_build", "listed_build", "range", "none"
# A run of this build that somebody sent; an answer only where it is confirmed.
SENT = "sent"
IS_AFFECTED = {AFFECTED: True, NOT_AFFECTED: False, UNKNOWN: None}
ANSWERS: dict[str, tuple[str, str]] = {
    Verdict.BUG_PRESENT: (AFFECTED, "bug"),
    Verdict.BUG_ABSENT: (NOT_AFFECTED, "clean"),
}
# Most reliable first.
BASES = (TESTED, SENT, LISTED, RANGE, NONE)
EVERY = "*"


@dataclass(frozen=True)
class PackageAnswer:
    package: str
    answer: str
    basis: str
    reason: Reason


@dataclass(frozen=True)
class Answer:
    """Whether an environment is affected, on what ground, and why."""

    answer: str
    basis: str
    reasons: list[Reason] = field(default_factory=list)
    unverified_preconditions: list[str] = field(default_factory=list)

    @property
    def is_affected(self) -> bool | None:
        return IS_AFFECTED[self.answer]

    def as_dict(self) -> dict[str, Any]:
        """As the API shows it (`affected` of a match)."""
        return {
            "answer": self.answer,
            "is_affected": self.is_affected,
            "basis": self.basis,
            "reasons": self.reasons,
            "unverified_preconditions": self.unverified_preconditions,
        }


class Documented(NamedTuple):
    """The fields of a record that say whom it affects."""

    affected: list[Mapping[str, Any]]
    affected_when: str
    preconditions: list[Mapping[str, Any]]
    environment: list[str]
    fixes: list[Mapping[str, Any]]


def answer_for(
    record: Record | Documented, env: Environment, findings: Iterable[Finding] = ()
) -> Answer:
    """A run on this very build decides; else listed builds, else ranges.

    A run that somebody sent decides nothing until it is confirmed: it is told beside
    what is documented, and is all there is to say where nothing is.
    """
    findings = list(findings)
    answer = settled_answer(record, env, findings)
    sent = [] if answer.basis == TESTED else list(sent_reasons(env, findings))
    if not sent:
        return answer
    basis = SENT if answer.answer == UNKNOWN else answer.basis
    return replace(answer, basis=basis, reasons=[*answer.reasons, *sent])


def settled_answer(
    record: Record | Documented, env: Environment, findings: list[Finding]
) -> Answer:
    unverified = unverified_preconditions(record.preconditions, env)
    tested = tested_answer(env, findings)
    if tested:
        return Answer(tested.answer, tested.basis, [tested.reason], unverified)
    excluded = excluded_by_hardware(record.preconditions, env)
    if excluded:
        unverified = [key for key in unverified if key != "gpu_arch"]
        return Answer(NOT_AFFECTED, RANGE, [excluded], unverified)
    doubts = unconfirmed_fixes(record.fixes, env, findings)
    documented = affected(record.affected, record.affected_when, env, doubts)
    documented = replace(documented, unverified_preconditions=unverified)
    if documented.answer == AFFECTED and documented.basis == RANGE:
        device = unreported_device(env, record.environment, record.preconditions)
        if device:
            return replace(documented, answer=UNKNOWN, basis=NONE, reasons=[device])
    if documented.answer == NOT_AFFECTED:
        missing = missing_there(record.affected, env, findings)
        if missing:
            return replace(documented, reasons=[missing])
    return documented


def excluded_by_hardware(
    preconditions: Iterable[Mapping[str, Any]], env: Environment
) -> Reason | None:
    """Why the bug cannot show here: it needs a GPU that this is not, or not for."""
    demands = [item["value"] for item in preconditions if item["key"] == "gpu_arch"]
    version = env.torch_raw or ""
    if demands and is_cpu_build(env):
        return reason("torch", "cpu_build", version=version)
    for demand in demands:
        if hardware.is_cuda_only(demand) and is_build_for_others(env):
            return reason("torch", "other_build", version=version, ranges=demand)
        if hardware.meets(demand, env.gpus) is False:
            gpus = ", ".join(env.gpus)
            return reason("torch", "other_gpu", version=gpus, ranges=demand)
    return None


def is_cpu_build(env: Environment) -> bool:
    return env.is_cpu_build or local_of(env) == "cpu"


def is_build_for_others(env: Environment) -> bool:
    """For AMD's or Intel's GPUs."""
    return local_of(env).startswith(("rocm", "xpu"))


def local_of(env: Environment) -> str:
    version = parse_version(env.torch_raw or "").version
    return (version.local if version else None) or ""


def tested_answer(
    env: Environment, findings: Iterable[Finding]
) -> PackageAnswer | None:
    """By what stands of the bug itself on the torch build of this exact version.

    Before what was sent and confirmed, what was run here or came with the record.
    """
    standing = [
        row
        for row in findings
        if row.is_standing_verdict and is_on_this_build(row, env)
    ]
    for row in sorted(standing, key=lambda row: (row.is_sent, order_of(row))):
        if row.verdict in ANSWERS:
            answer, kind = ANSWERS[row.verdict]
            basis = SENT if row.is_sent else TESTED
            kind = f"confirmed_{kind}" if row.is_sent else f"ran_{kind}"
            why = reason("torch", kind, env.torch_raw or "", sender=row.origin)
            return PackageAnswer("torch", answer, basis, why)
    return None


def order_of(row: Finding) -> bool:
    """That the bug was seen says more than that it was not."""
    return row.verdict != Verdict.BUG_PRESENT


def is_on_this_build(row: Finding, env: Environment) -> bool:
    return row.build_raw == env.torch_raw and not row.is_model


def sent_reasons(env: Environment, findings: Iterable[Finding]) -> Iterator[Reason]:
    """What was sent of this very build and is not confirmed."""
    for row in findings:
        unconfirmed = row.is_fresh_verdict and not row.confirmed
        if unconfirmed and row.verdict in ANSWERS and is_on_this_build(row, env):
            kind = f"sent_{ANSWERS[row.verdict][1]}"
            yield reason("torch", kind, env.torch_raw or "", sender=row.origin)


def affected(
    entries: list[Mapping[str, Any]],
    affected_when: str,
    env: Environment,
    doubts: Mapping[str, Reason] = MappingProxyType({}),
) -> Answer:
    """By what the record documents; entries of one package speak together.

    `doubts`: why a range of a package tells nothing of what is installed.
    """
    by_package: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_package.setdefault(canonical(entry["package"]), []).append(entry)
    if not by_package:
        return Answer(UNKNOWN, NONE, [reason("", "nothing_documented")])
    answers = [
        package_answer(package, listed, env.version(package))
        if package != "torch" or not env.contradicting
        else contradicting(env)
        for package, listed in by_package.items()
    ]
    answers = [
        PackageAnswer(item.package, UNKNOWN, NONE, doubts[item.package])
        if item.basis == RANGE and item.package in doubts
        else item
        for item in answers
    ]
    answer = combine({item.answer for item in answers}, affected_when)
    deciding = [item.basis for item in answers if item.answer == answer]
    basis = NONE if answer == UNKNOWN else ground(deciding, affected_when, answer)
    return Answer(answer, basis, [item.reason for item in answers])


def contradicting(env: Environment) -> PackageAnswer:
    """What was pasted names two releases of torch."""
    why = reason("torch", "contradicting", version=" / ".join(env.contradicting))
    return PackageAnswer("torch", UNKNOWN, NONE, why)


def combine(answers: set[str], affected_when: str) -> str:
    """ANY: one affected package suffices. ALL: one unaffected package clears it."""
    if affected_when == AffectedWhen.ALL:
        decisive, unanimous = NOT_AFFECTED, AFFECTED
    else:
        decisive, unanimous = AFFECTED, NOT_AFFECTED
    if decisive in answers:
        return decisive
    return unanimous if answers == {unanimous} else UNKNOWN


def ground(bases: list[str], affected_when: str, answer: str) -> str:
    """One package decides: the best ground. All must agree: the weakest."""
    decisive = NOT_AFFECTED if affected_when == AffectedWhen.ALL else AFFECTED
    order = sorted(bases, key=BASES.index)
    return order[0] if answer == decisive else order[-1]


def package_answer(
    package: str, entries: list[Mapping[str, Any]], raw: str | None
) -> PackageAnswer:
    if not raw:
        return PackageAnswer(package, UNKNOWN, NONE, reason(package, "not_given"))
    build = parse_version(raw, package)
    for entry in entries:
        for listed in entry.get("builds", []):
            if is_same_build(parse_version(listed["raw"], package), build):
                state = listed["state"]
                why = reason(package, f"listed_{state}", version=raw)
                return PackageAnswer(package, state, LISTED, why)
    ranges = [entry["events"] for entry in entries if entry.get("events")]
    answers = [in_range(events, build) for events in ranges]
    answer = combine(set(answers), AffectedWhen.ANY) if answers else UNKNOWN
    ranges_text = "; ".join(described(events) for events in ranges)
    if answer == UNKNOWN:
        kind = why_unknown(build, ranges)
        why = reason(package, kind, version=raw, ranges=ranges_text)
        return PackageAnswer(package, UNKNOWN, NONE, why)
    kind = f"between_{answer}" if build.is_alpha else f"range_{answer}"
    if EVERY in ranges_text:
        kind = "every_version"
    why = reason(package, kind, version=raw, ranges=ranges_text)
    return PackageAnswer(package, answer, RANGE, why)


def why_unknown(build: BuildVersion, ranges: list[Any]) -> str:
    if not ranges:
        return "not_listed"
    return "series" if build.is_series else "unorderable"


def described(events: Iterable[Mapping[str, str]]) -> str:
    """A timeline as people write it: ">= 2.5.0, < 2.5.1"."""
    signs = {"introduced": "≥", "fixed": "<", "last_affected": "≤"}
    parts = [
        f"{signs[kind]} {text}"
        for event in events
        for kind, text in event.items()
        if (kind, text) != ("introduced", "0")
    ]
    return ", ".join(parts) or EVERY


def unverified_preconditions(
    preconditions: Iterable[Mapping[str, Any]], env: Environment
) -> list[str]:
    """Keys of the preconditions that what was pasted does not settle."""
    keys = [
        item["key"]
        for item in preconditions
        if not (item["key"] == "gpu_arch" and hardware.meets(item["value"], env.gpus))
        and not (item["key"] == "package" and env.version(item["value"]))
    ]
    return list(dict.fromkeys(keys))
