"""What keeps an answer from being sure, or makes another sentence of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from packaging.version import Version

from kb.choices import Verdict
from kb.environments import hardware
from kb.environments.environment import Environment
from kb.environments.package_lines import canonical
from kb.models import Finding
from kb.versions.ranges import BuildVersion, parse_version
from kb.versions.reasons import Reason, reason

# Devices on which no run was made here, by the words that reports have for them.
NAMES = {
    "rocm": ("rocm", "hip", "amd", "gfx", "mi2", "mi3", "radeon"),
    "xpu": ("xpu", "intel"),
    "npu": ("npu", "ascend", "cann", "910b"),
    "mps": ("mps", "apple", "macos"),
}
SHOWN = {"rocm": "ROCm", "xpu": "Intel XPU", "npu": "Ascend NPU", "mps": "Apple MPS"}
# What a repro says where this torch lacks what the bug is in.
LACKS = (" has no ", " 没有")


def foreign_device(env: Environment) -> str:
    """rocm, xpu, npu or mps, where what was pasted names one; else ""."""
    version = parse_version(env.torch_raw or "").version
    local = (version.local if version else None) or ""
    for name in ("rocm", "xpu"):
        if local.startswith(name):
            return name
    return hardware.platform_of(env.gpus)


def unreported_device(
    env: Environment,
    reported: Iterable[str],
    preconditions: Iterable[Mapping[str, Any]],
) -> Reason | None:
    """Why nothing is known: no run and no report speaks of the reader's device."""
    device = foreign_device(env)
    if not device:
        return None
    said = [*reported, *(str(entry["value"]) for entry in preconditions)]
    text = " ".join(said).lower()
    if any(name in text for name in NAMES[device]):
        return None
    return reason("torch", "other_device", version=SHOWN[device])


def unconfirmed_fixes(
    fixes: Iterable[Mapping[str, Any]], env: Environment, findings: Iterable[Finding]
) -> dict[str, Reason]:
    """By package: a fix that is named, that is installed, and that no run confirmed."""
    clean = [row.build_raw for row in findings if is_clean(row)]
    doubts = {}
    for fix in fixes:
        package = canonical(fix["package"])
        installed = env.version(package)
        bound = parse_version(fix.get("version") or "", package).public
        if not (installed and bound):
            continue
        has_it = reaches(parse_version(installed, package), bound)
        runs = clean if package == "torch" else []
        confirmed = any(reaches(parse_version(raw), bound) for raw in runs)
        if has_it and not confirmed:
            doubts[package] = reason(
                package, "said_fixed", version=installed, ranges=fix["version"]
            )
    return doubts


def is_clean(row: Finding) -> bool:
    """A current run of the bug itself that did not show it."""
    absent = row.verdict == Verdict.BUG_ABSENT
    return absent and row.is_standing_verdict and not row.is_model


def reaches(build: BuildVersion, bound: Version) -> bool:
    return build.is_orderable and build.public is not None and build.public >= bound


def missing_there(
    entries: Iterable[Mapping[str, Any]], env: Environment, findings: Iterable[Finding]
) -> Reason | None:
    """What the bug is in came with a later torch, as a run on an older one showed."""
    build = parse_version(env.torch_raw or "")
    introduced = first_introduced(entries)
    if introduced is None or build.public is None or build.public >= introduced:
        return None
    for row in findings:
        ran = parse_version(row.build_raw)
        if (
            row.is_standing_verdict
            and lacks_it(row)
            and ran.public is not None
            and build.public <= ran.public < introduced
        ):
            return reason(
                "torch", "missing", version=env.torch_raw or "", ranges=row.build_raw
            )
    return None


def lacks_it(row: Finding) -> bool:
    said = row.verdict_reason
    return row.verdict == Verdict.NOT_APPLICABLE and (
        said == "api" or any(words in said for words in LACKS)
    )


def first_introduced(entries: Iterable[Mapping[str, Any]]) -> Version | None:
    """The first affected release of torch; None where it is so from the start."""
    texts = [
        event["introduced"]
        for entry in entries
        if canonical(entry["package"]) == "torch"
        for event in entry.get("events", [])
        if "introduced" in event
    ]
    if not texts or "0" in texts:
        return None
    bounds = [bound for text in texts if (bound := parse_version(text).public)]
    return min(bounds, default=None)
