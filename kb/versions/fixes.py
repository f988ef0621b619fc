"""What a fix that is installed says, and what a run said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from packaging.version import Version

from kb.choices import DEVICE_NAMES, Verdict
from kb.environments.environment import Environment, family
from kb.versions.devices import Holds, device_for, is_anywhere
from kb.versions.ranges import (
    NOT_AFFECTED,
    UNKNOWN,
    BuildVersion,
    is_beside,
    is_same_build,
    parse_version,
)
from kb.versions.reasons import Reason, reason
from kb.versions.runs import Run, device_words, version_words

# Fixes after which the bug is gone, whatever else is installed.
ENDS_IT = ("root_fix", "removed")
# What a repro says where this torch lacks what the bug is in.
LACKS = (" has no ", " 没有")


class Fixed(NamedTuple):
    """What an installed fix says of its package."""

    package: str
    ends_it: bool
    answer: str
    reason: Reason


def installed_fixes(
    fixes: Iterable[Mapping[str, Any]],
    entries: Iterable[Mapping[str, Any]],
    holds: Holds,
    env: Environment,
    runs: Iterable[Run],
) -> Iterator[Fixed]:
    """Of each fix that is named and that the installed version has."""
    device, listed = device_for(env, holds), list(entries)
    clean = [
        run
        for run in runs
        if run.verdict == Verdict.BUG_ABSENT
        and (is_anywhere(holds) or device in ("", run.device_class))
    ]
    for fix in fixes:
        package = family(fix["package"])
        installed = env.version(package)
        bound = parse_version(fix.get("version") or "", package).public
        if not (installed and bound):
            continue
        if not reaches(parse_version(installed, package), bound):
            continue
        given = {"version": installed, "ranges": fix["version"]}
        reached = not device or device in fix.get("devices", [device])
        ends_it = fix["kind"] in ENDS_IT
        if not reached:
            why = reason(
                package, "fixed_elsewhere", **given, device=DEVICE_NAMES[device]
            )
            yield Fixed(package, ends_it=False, answer=UNKNOWN, reason=why)
            continue
        run = next((run for run in clean if has_fix(run, package, bound, listed)), None)
        kind = "seen_fixed" if run else "said_fixed"
        ran = {"ran": version_words(run), "device": device_words(run)} if run else {}
        why = reason(package, kind, **given, **ran)
        yield Fixed(package, ends_it, NOT_AFFECTED, why)


def has_fix(
    run: Run, package: str, bound: Version, entries: list[Mapping[str, Any]]
) -> bool:
    """The run was made with that release or a later one, or with the commit of it."""
    raw = run.build_raw
    if package != "torch":
        raw = run.made_with.get("packages", {}).get(package) or ""
    ran = parse_version(raw, package)
    return reaches(ran, bound) or any(
        one["state"] == NOT_AFFECTED
        and is_same_build(parse_version(one["raw"], package), ran)
        for entry in entries
        if family(entry["package"]) == package
        for one in entry.get("builds", [])
    )


def reaches(build: BuildVersion, bound: Version) -> bool:
    version = build.public if build.is_orderable else None
    return version is not None and version >= bound and not is_beside(version, bound)


def missing_there(
    entries: Iterable[Mapping[str, Any]], env: Environment, runs: Iterable[Run]
) -> Reason | None:
    """What the bug is in came with a later torch, as a run on an older one showed."""
    build = parse_version(env.torch_raw or "")
    introduced = first_introduced(entries)
    if introduced is None or build.public is None or build.public >= introduced:
        return None
    for run in runs:
        ran = parse_version(run.build_raw).public
        if lacks_it(run) and ran is not None and build.public <= ran < introduced:
            return reason(
                "torch", "missing", version=env.torch_raw or "", ranges=run.build_raw
            )
    return None


def lacks_it(run: Run) -> bool:
    said = run.verdict_reason
    return run.verdict == Verdict.NOT_APPLICABLE and (
        said == "api" or any(words in said for words in LACKS)
    )


def first_introduced(entries: Iterable[Mapping[str, Any]]) -> Version | None:
    """The first affected release of torch; None where it is so from the start."""
    texts = [
        event["introduced"]
        for entry in entries
        if family(entry["package"]) == "torch"
        for event in entry.get("events", [])
        if "introduced" in event
    ]
    if not texts or "0" in texts:
        return None
    bounds = [bound for text in texts if (bound := parse_version(text).public)]
    return min(bounds, default=None)
