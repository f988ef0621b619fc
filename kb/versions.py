"""Is this environment affected? Ranges are OSV events, answers are three-valued. Pure.

`packaging.specifiers` is not used: a specifier `<2.6` excludes 2.6.0a0 and every
nightly of 2.6.0, which is where such bugs live.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import InvalidVersion, Version

from kb.choices import AffectedWhen, Verdict
from kb.environment import Environment, canonical
from kb.models import Finding, Record
from kb.reasons import Reason, reason

AFFECTED, NOT_AFFECTED, UNKNOWN = "affected", "not_affected", "unknown"
TESTED, LISTED, RANGE, NONE = "tested_build", "listed_build", "range", "none"
IS_AFFECTED = {AFFECTED: True, NOT_AFFECTED: False, UNKNOWN: None}
# How far a basis can be relied on, best first.
BASES = (TESTED, LISTED, RANGE, NONE)
EVERY = "*"

NV = re.compile(r"(?<![0-9a-z])nv(\d{2})\.(\d{1,2})(?!\d)")
COMMIT = re.compile(r"(?:^|@|[+.](?:git|g)?)([0-9a-f]{7,40})(?![0-9a-z])")


@dataclass(frozen=True)
class BuildVersion:
    """What a version says of a build. `raw` stands as it was written.

    `nv` is the month of an NVIDIA container, as (25, 1): Version("…nv25.01") keeps
    only nv25.1. `commit` is the source's, where the version names one.
    """

    raw: str
    version: Version | None
    nv: tuple[int, int] | None = None
    commit: str | None = None

    @property
    def public(self) -> Version | None:
        """Without the part after "+", by which nothing may be ordered."""
        return Version(self.version.public) if self.version else None

    @property
    def is_orderable(self) -> bool:
        """False for builds from source: the number does not say from which commit.

        Those are alphas (main between two release branches), containers, and
        versions that name a commit after the "+".
        """
        pre = self.version.pre if self.version else None
        is_alpha = pre is not None and pre[0] == "a"
        return bool(self.version) and not (is_alpha or self.nv or self.commit)


def parse_version(raw: str) -> BuildVersion:
    """Any package's version, also one that is an address of a commit."""
    text = raw.strip()
    nv, commit = NV.search(text.lower()), COMMIT.search(text.lower())
    try:
        version = Version(text)
    except InvalidVersion:
        version = None
    return BuildVersion(
        raw=text,
        version=version,
        nv=(int(nv[1]), int(nv[2])) if nv else None,
        commit=commit[1] if commit else None,
    )


def is_same_build(listed: BuildVersion, installed: BuildVersion) -> bool:
    """The same text, the same commit, the same container, or a plain release."""
    if listed.raw.lower() == installed.raw.lower():
        return True
    if listed.nv and installed.nv and listed.nv != installed.nv:
        return False
    if listed.commit and installed.commit:
        return same_commit(listed.commit, installed.commit)
    if listed.public is None or listed.public != installed.public:
        return False
    if listed.nv or installed.nv:
        return listed.nv == installed.nv
    # A listed "2.5.0" speaks of the release, whatever CUDA it was built for.
    plain = listed.version is not None and listed.version.local is None
    return plain and installed.is_orderable


def same_commit(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def in_range(events: Iterable[Mapping[str, str]], build: BuildVersion) -> str:
    """What a timeline of OSV events says of a build."""
    timeline = [(kind, text) for event in events for kind, text in event.items()]
    if not timeline:
        return UNKNOWN
    if all(entry == ("introduced", "0") for entry in timeline):
        return AFFECTED
    if not build.is_orderable or build.public is None:
        return UNKNOWN
    try:
        return walk(sorted(timeline, key=event_order), build.public)
    except InvalidVersion:
        return UNKNOWN  # a range between commits


def event_order(event: tuple[str, str]) -> tuple[Version, int]:
    kind, text = event
    # At one version a bug is fixed before it is introduced again, and
    # last_affected still holds that version itself.
    return Version(text), ("fixed", "introduced", "last_affected").index(kind)


def walk(timeline: list[tuple[str, str]], version: Version) -> str:
    answer = NOT_AFFECTED
    for kind, text in timeline:
        bound = Version(text)
        if kind == "introduced":
            if text == "0" or version >= bound:
                answer = AFFECTED
            elif is_before_release(version, bound):
                answer = UNKNOWN
        elif kind == "last_affected":
            if without_post(version) > bound:
                answer = NOT_AFFECTED
        elif version >= bound:
            answer = NOT_AFFECTED
    return answer


def is_before_release(version: Version, bound: Version) -> bool:
    """A nightly or candidate of a release that has the bug: it may have it already."""
    of_this = version.is_prerelease and version.release == bound.release
    return of_this and not bound.is_prerelease


def without_post(version: Version) -> Version:
    """A post-release carries the code of its release."""
    if version.post is None or version.is_devrelease:
        return version
    return Version(version.public.partition(".post")[0])


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
    """A run on this very build decides; else listed builds, else ranges."""
    unverified = unverified_preconditions(record.preconditions, env)
    tested = tested_answer(env, findings)
    if tested:
        return Answer(tested.answer, TESTED, [tested.reason], unverified)
    if needs_gpu(record.preconditions) and is_cpu_build(env):
        unverified = [key for key in unverified if key != "gpu_arch"]
        said = reason("torch", "cpu_build", version=env.torch_raw or "")
        return Answer(NOT_AFFECTED, RANGE, [said], unverified)
    found = affected(record.affected, record.affected_when, env)
    return Answer(found.answer, found.basis, found.reasons, unverified)


def needs_gpu(preconditions: Iterable[Mapping[str, Any]]) -> bool:
    return any(item["key"] == "gpu_arch" for item in preconditions)


def is_cpu_build(env: Environment) -> bool:
    version = parse_version(env.torch_raw or "").version
    return version is not None and version.local == "cpu"


def tested_answer(
    env: Environment, findings: Iterable[Finding]
) -> PackageAnswer | None:
    """By fresh runs of the bug itself on the torch build with this exact version."""
    verdicts = [
        row.verdict
        for row in findings
        if row.build_raw == env.torch_raw and row.is_fresh_verdict and not row.is_model
    ]
    raw = env.torch_raw or ""
    if Verdict.BUG_PRESENT in verdicts:
        said = reason("torch", "ran_bug", version=raw)
        return PackageAnswer("torch", AFFECTED, TESTED, said)
    if Verdict.BUG_ABSENT in verdicts:
        said = reason("torch", "ran_clean", version=raw)
        return PackageAnswer("torch", NOT_AFFECTED, TESTED, said)
    return None


def affected(
    entries: list[Mapping[str, Any]], affected_when: str, env: Environment
) -> Answer:
    """By what the record documents; entries of one package speak together."""
    by_package: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_package.setdefault(canonical(entry["package"]), []).append(entry)
    if not by_package:
        return Answer(UNKNOWN, NONE, [reason("", "nothing_documented")])
    answers = [
        package_answer(package, listed, env.version(package))
        for package, listed in by_package.items()
    ]
    answer = combine({item.answer for item in answers}, affected_when)
    deciding = [item.basis for item in answers if item.answer == answer]
    basis = NONE if answer == UNKNOWN else ground(deciding, affected_when, answer)
    return Answer(answer, basis, [item.reason for item in answers])


def combine(answers: set[str], affected_when: str) -> str:
    """Any: one affected package is enough. All: one that is not clears it."""
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
    build = parse_version(raw)
    for entry in entries:
        for listed in entry.get("builds", []):
            if is_same_build(parse_version(listed["raw"]), build):
                state = listed["state"]
                said = reason(package, f"listed_{state}", version=raw)
                return PackageAnswer(package, state, LISTED, said)
    ranges = [entry["events"] for entry in entries if entry.get("events")]
    answers = [in_range(events, build) for events in ranges]
    answer = combine(set(answers), AffectedWhen.ANY) if answers else UNKNOWN
    spoken = "; ".join(described(events) for events in ranges)
    if answer == UNKNOWN:
        kind = "unorderable" if ranges else "not_listed"
        said = reason(package, kind, version=raw, ranges=spoken)
        return PackageAnswer(package, UNKNOWN, NONE, said)
    kind = "every_version" if EVERY in spoken else f"range_{answer}"
    said = reason(package, kind, version=raw, ranges=spoken)
    return PackageAnswer(package, answer, RANGE, said)


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


CAPABILITIES = {
    "V100": 70, "T4": 75, "A100": 80, "A800": 80, "A30": 80, "A10": 86, "A40": 86,
    "A6000": 86, "3090": 86, "3080": 86, "L4": 89, "L40": 89, "L20": 89, "4090": 89,
    "H100": 90, "H200": 90, "H800": 90, "H20": 90, "GH200": 90, "B200": 100,
    "GB200": 100, "B300": 103, "GB300": 103, "5090": 120,
}  # fmt: skip
MODEL = re.compile(r"[A-Z]{0,2}\d{1,4}")
SM = re.compile(r"sm_?(\d{2,3})")


def unverified_preconditions(
    preconditions: Iterable[Mapping[str, Any]], env: Environment
) -> list[str]:
    """Keys of the preconditions that what was pasted does not settle."""
    keys = [
        item["key"]
        for item in preconditions
        if not (item["key"] == "gpu_arch" and names_arch(item["value"], env.gpu))
        and not (item["key"] == "package" and env.version(item["value"]))
    ]
    return list(dict.fromkeys(keys))


def names_arch(value: str, gpu: str | None) -> bool:
    """The record's sm_NN is the architecture of the GPU that was pasted."""
    models = MODEL.findall(gpu or "")
    mine = {CAPABILITIES[model] for model in models if model in CAPABILITIES}
    return bool(mine & {int(number) for number in SM.findall(value.lower())})
