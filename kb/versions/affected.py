"""Is this environment affected? Answers are three-valued, with reasons. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kb.choices import DEVICE_NAMES, AffectedWhen, Upstream, Verdict
from kb.environments import hardware
from kb.environments.environment import Environment, family
from kb.models import Finding, Record
from kb.versions import runs
from kb.versions.devices import (
    device_of,
    elsewhere,
    excluded_by_hardware,
    is_anywhere,
)
from kb.versions.fixes import Fixed, installed_fixes, missing_there
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
IS_AFFECTED = {AFFECTED: True, NOT_AFFECTED: False, UNKNOWN: None}
# Most reliable first.
BASES = (TESTED, LISTED, RANGE, NONE)
EVERY = "*"
# A list of packages may be complete without them.
NEVER_LISTED = ("torch", "cudnn")


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


def answer_for(
    record: Record, env: Environment, findings: Iterable[Finding] = ()
) -> Answer:
    """Whether an environment is affected by a record: the one answer of every door.

    Where what it is about is not installed it is none; else a run made on just this
    decides; else whether the cause holds on this device; else listed builds, else
    ranges and fixes.
    """
    made = [row for row in findings if row.is_fresh_verdict and not row.is_model]
    unverified = unverified_preconditions(record.preconditions, env)
    if is_of_code(record):
        return Answer(UNKNOWN, NONE, [reason("", "of_code")], unverified)
    absent = absent_package(record, env)
    if absent:
        return Answer(NOT_AFFECTED, RANGE, [absent], unverified)
    decided = tested_answer(record, env, made)
    if decided:
        return replace(decided, unverified_preconditions=unverified)
    excluded = excluded_by_hardware(record.preconditions, env)
    if excluded:
        unverified = [key for key in unverified if key != "gpu_arch"]
        return Answer(NOT_AFFECTED, RANGE, [excluded], unverified)
    other = elsewhere(record.holds_on, env)
    if other and other[0] == NOT_AFFECTED:
        return Answer(NOT_AFFECTED, RANGE, [other[1]], unverified)
    documented = documented_answer(record, env, made)
    if other and documented.answer == AFFECTED:
        return Answer(UNKNOWN, NONE, [other[1]], unverified)
    reasons = [*documented.reasons, *said_of_device(record, env, documented, made)]
    return replace(documented, reasons=reasons, unverified_preconditions=unverified)


def is_of_code(record: Record) -> bool:
    """Whether only the reader's code decides, as no version is said to differ.

    A run would show that it happens on a build, which is so on each.
    """
    return record.upstream == Upstream.BY_DESIGN and not record.affected


def tested_answer(
    record: Record, env: Environment, made: list[Finding]
) -> Answer | None:
    """By a run of the bug itself with these versions on this device."""
    names_card = any(item["key"] == "gpu_arch" for item in record.preconditions)
    run = runs.deciding(runs.Asked(record.holds_on, names_card), env, made)
    if run is None:
        return None
    is_bug = run.verdict == Verdict.BUG_PRESENT
    device = runs.device_words(run)
    kind = "ran_bug" if is_bug else "ran_clean"
    reasons = [reason("torch", kind, ran=runs.version_words(run), device=device)]
    if run.device_class != device_of(env):
        reasons += everywhere(env)
    return Answer(AFFECTED if is_bug else NOT_AFFECTED, TESTED, reasons)


def everywhere(env: Environment) -> list[Reason]:
    """That the cause is the same on the device of the reader, if that is known."""
    name = DEVICE_NAMES.get(device_of(env))
    return [reason("torch", "everywhere", device=name)] if name else []


def documented_answer(record: Record, env: Environment, made: list[Finding]) -> Answer:
    """By listed builds, ranges and fixes."""
    fixed = list(
        installed_fixes(record.fixes, record.affected, record.holds_on, env, made)
    )
    named = {family(entry["package"]) for entry in record.affected}
    for fix in fixed:
        if fix.ends_it and fix.package not in named:
            return Answer(NOT_AFFECTED, RANGE, [fix.reason])
    documented = by_ranges(record, env, fixed)
    if documented.answer == NOT_AFFECTED:
        missing = missing_there(record.affected, env, made)
        if missing:
            return replace(documented, reasons=[missing])
    return documented


def absent_package(record: Record, env: Environment) -> Reason | None:
    """Of a record that names no range: none of the packages it is about is there."""
    packages = {family(fix["package"]) for fix in record.fixes}
    known = not record.affected and packages and env.is_complete
    if not known or any(map(env.version, packages)) or "torch" in packages:
        return None
    return reason(min(packages), "absent")


def said_of_device(
    record: Record,
    env: Environment,
    documented: Answer,
    made: list[Finding],
) -> list[Reason]:
    """What runs on another device say, where they do not decide."""
    here = device_of(env)
    device = DEVICE_NAMES.get(here, "")
    same = [run for run in made if runs.is_same(run, env)]
    clean = [run for run in same if run.verdict == Verdict.BUG_ABSENT]
    if clean and device and documented.answer != NOT_AFFECTED:
        ran = runs.device_words(clean[0])
        if ran != device:
            return [reason("torch", "clean_elsewhere", ran=ran, device=device)]
    ran_there = any(run.device_class == here for run in made)
    if documented.answer == AFFECTED and is_anywhere(record.holds_on) and not ran_there:
        return everywhere(env)
    return []


def by_ranges(record: Record, env: Environment, fixed: Iterable[Fixed] = ()) -> Answer:
    """By what the record documents; entries of one package speak together."""
    by_package: dict[str, list[Mapping[str, Any]]] = {}
    for entry in record.affected:
        by_package.setdefault(family(entry["package"]), []).append(entry)
    if not by_package:
        return Answer(UNKNOWN, NONE, [reason("", "nothing_documented")])
    answers = [
        with_fix(package_answer(package, listed, env), fixed)
        for package, listed in by_package.items()
    ]
    answer = combine({item.answer for item in answers}, record.affected_when)
    deciding = [item.basis for item in answers if item.answer == answer]
    known = answer != UNKNOWN
    basis = ground(deciding, record.affected_when, answer) if known else NONE
    return Answer(answer, basis, [item.reason for item in answers])


def with_fix(item: PackageAnswer, fixed: Iterable[Fixed]) -> PackageAnswer:
    """A range with what a fix says that is installed.

    Where the range goes on behind it, nothing is known.
    """
    for fix in fixed:
        if item.basis == RANGE and fix.package == item.package:
            same = fix.answer == item.answer
            basis = RANGE if same else NONE
            answer = fix.answer if same else UNKNOWN
            return PackageAnswer(item.package, answer, basis, fix.reason)
    return item


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
    package: str, entries: list[Mapping[str, Any]], env: Environment
) -> PackageAnswer:
    if package == "torch" and env.contradicting:
        why = reason(package, "contradicting", version=" / ".join(env.contradicting))
        return PackageAnswer(package, UNKNOWN, NONE, why)
    raw = env.version(package)
    if not raw and env.is_complete and package not in NEVER_LISTED:
        return PackageAnswer(package, NOT_AFFECTED, RANGE, reason(package, "absent"))
    if not raw:
        return PackageAnswer(package, UNKNOWN, NONE, reason(package, "not_given"))
    build = parse_version(raw, package)
    named = named_answer(package, entries, build)
    if named:
        return named
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


def named_answer(
    package: str, entries: list[Mapping[str, Any]], build: BuildVersion
) -> PackageAnswer | None:
    """Of a build that the record lists, and of versions of which it knows nothing."""
    for entry in entries:
        for listed in entry.get("builds", []):
            if is_same_build(parse_version(listed["raw"], package), build):
                state = listed["state"]
                why = reason(package, f"listed_{state}", version=build.raw)
                return PackageAnswer(package, state, LISTED, why)
    for entry in entries:
        kind = ranges = ""
        if in_range(entry.get("unknown", []), build) == AFFECTED:
            kind, ranges = "nobody_knows", described(entry["unknown"])
        elif is_for_older_cuda(build, entry.get("cuda", "")):
            kind, ranges = "by_hand", entry["cuda"]
        if kind:
            why = reason(package, kind, version=build.raw, ranges=ranges)
            return PackageAnswer(package, UNKNOWN, NONE, why)
    return None


def is_for_older_cuda(build: BuildVersion, least: str) -> bool:
    """A build whose CUDA, as in cu126, is older than `least`."""
    local = (build.version.local if build.version else None) or ""
    found = re.match(r"cu(\d{2,3})(?!\d)", local)
    return bool(least and found and int(found[1]) < int(least.replace(".", "")))


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
