"""From facts to requirements, from reports to outcomes, from outcomes to a verdict."""

from __future__ import annotations

import math
from itertools import repeat
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from .checks import CHECK_FAMILIES, REQUIRED_CHECKS
from .contract import MetricError, predicate_holds
from .fields import Header, is_number, parse_dependency, release, same_kind
from .parameters import at_values
from .spec import (
    Assessment,
    Judgement,
    Report,
    observation_problems,
    reported_observations,
)
from .values import decode, dumps, said


class ChangedError(MetricError):
    """A workaround without the bug has another result than the control."""


def examine(
    header: Header,
    report: Report,
    name: str,
    control: Optional[Mapping[str, Any]] = None,
) -> Assessment:
    """Outcome (bug, clean, not_applicable, error) of one check from its report.

    `control`: the control's observations.
    """
    if report.failure:
        return Assessment("error", report.failure)
    if not report.messages:
        return Assessment("error", "no_report")
    message = report.messages[0]
    if message["t"] == "raised":
        identity = (report.hello or {}).get("identity")
        missing = message.get("type") in ("ImportError", "ModuleNotFoundError")
        return Assessment("error", "raised" if identity and not missing else "import")
    if message.get("check") != name:
        return Assessment("error", "channel", "the report is of another check")
    observations = reported_observations(report)
    problems = observation_problems(observations)
    if problems:
        return Assessment("error", "contract", "; ".join(problems[:8]))
    return assess(header, name, observations, control)


def assess(
    header: Header,
    name: str,
    observations: Mapping[str, Any],
    control: Optional[Mapping[str, Any]] = None,
) -> Assessment:
    """Outcome of a check that reported properly: the predicate, applied."""
    if name == "requirements":
        return Assessment("clean")
    text = observations.get("not_applicable")
    if text is not None:
        return Assessment("not_applicable", said(str(text)))
    try:
        if name == "reference":
            return _assess_reference(header, observations)
        if name == "trigger":
            unmet = _unmet_expectation(header, observations)
            if unmet:
                return Assessment("not_applicable", "not_taken", unmet)
        if _shows_bug(header, observations):
            return Assessment("bug")
        if name.startswith("workaround_"):
            require_match(header, observations, control or {})
    except ChangedError as error:
        return Assessment("error", "changed:" + str(error)[:180], str(error))
    except MetricError as error:
        return Assessment("error", "metric", str(error))
    return Assessment("clean")


def _shows_bug(header: Header, observations: Mapping[str, Any]) -> bool:
    # Every predicate is read, so that none is missing unnoticed.
    found = [predicate_holds(source, observations) for source in header.bug]
    return all(found)


def _assess_reference(header: Header, observations: Mapping[str, Any]) -> Assessment:
    numbers: List[float] = []
    for value in map(decode, observations.values()):
        items = value if isinstance(value, list) else [value]
        numbers.extend(filter(is_number, items))
    if not numbers or not all(map(math.isfinite, numbers)):
        return Assessment("error", "reference", "the reference must be finite numbers")
    try:
        if _shows_bug(header, observations):
            return Assessment("bug", None, "the reference itself shows the bug")
    except MetricError:
        pass  # A reference need not report what the predicate reads.
    return Assessment("clean")


def _unmet_expectation(header: Header, observations: Mapping[str, Any]) -> str:
    for key, wanted in header.expect.items():
        if key not in observations:
            raise MetricError("expect: the trigger did not report %s" % key)
        got = decode(observations[key])
        if not same_kind(got, wanted):
            raise MetricError("expect: %s is of another type" % key)
        if got != wanted:
            return "expected %s = %s, got %s" % (key, dumps(wanted), dumps(got))
    return ""


def require_match(
    header: Header, observations: Mapping[str, Any], control: Mapping[str, Any]
) -> None:
    """Raise ChangedError unless a workaround equals the control in `match`.

    Without it, doing nothing at all would be the best workaround.
    """
    for key, tolerance in header.match.items():
        ours, theirs = decode(observations.get(key)), decode(control.get(key))
        if not _close(ours, theirs, tolerance):
            raise ChangedError(
                "%s is %s here and %s in the control, tolerance %g"
                % (key, dumps(ours), dumps(theirs), tolerance)
            )


def _close(ours: Any, theirs: Any, tolerance: float) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        same_length = len(ours) == len(theirs)
        return same_length and all(map(_close, ours, theirs, repeat(tolerance)))
    if is_number(ours) and is_number(theirs):
        return math.isfinite(theirs) and abs(ours - theirs) <= tolerance * abs(theirs)
    return ours is not None and type(ours) is type(theirs) and bool(ours == theirs)


def unmet_requirement(header: Header, facts: Mapping[str, Any]) -> Optional[str]:
    """The reason why a repro cannot run where these facts hold; None = it can.

    `facts` as the probe reports them: python, torch (raw versions), devices (list),
    missing (stack modules), packages (versions), compiler, loader, loopback (booleans),
    said (what `requires()` returned).
    """
    return (
        _unmet_device(header, facts.get("devices") or [])
        or _lacking(facts.get("missing") or [])
        or _unmet_version(header, facts)
        or next((n for n in header.needs if facts.get(n) is not True), None)
        or (said(str(facts["said"])) if facts.get("said") else None)
    )


def _unmet_device(header: Header, devices: Sequence[Any]) -> Optional[str]:
    if header.device == "cpu":
        return None
    # The repro runs on the first devices, so these are the ones to look at.
    used = [d for d in devices if d.get("class") == header.device][: header.min_devices]
    if not used:
        return "device"
    lowest = release(header.min_capability)
    if any(release(d.get("capability") or "") < lowest for d in used):
        return "capability"
    if any(d.get("memory_mib", 0) < header.min_memory_gib * 1024 for d in used):
        return "memory"
    return "devices" if len(used) < header.min_devices else None


def _unmet_version(header: Header, facts: Mapping[str, Any]) -> Optional[str]:
    python = release(header.requires_python.lstrip("> ="))
    if release(str(facts.get("python") or "")) < python:
        return "api"
    packages = facts.get("packages") or {}
    for name, lowest in map(parse_dependency, header.dependencies):
        if name == "torch":
            if release(str(facts.get("torch") or "")) < lowest:
                return "api"
        elif release(str(packages.get(name) or "")) < (lowest or (0,)):
            return _lacking([name])
    return None


def _lacking(packages: Sequence[str]) -> Optional[str]:
    return "stack:" + ", ".join(packages) if packages else None


def gate_of(
    name: str, outcome: str, reason: Optional[str]
) -> Optional[Tuple[str, str]]:
    """What one outcome does to the run: None = go on, else verdict and reason."""
    if name.startswith(CHECK_FAMILIES):
        return None
    if outcome == "not_applicable":
        return "not_applicable", reason or "device"
    if outcome == "error":
        verdict = "inconclusive" if reason in ("metric", "reference") else "error"
        return verdict, reason or "no_report"
    misbehaved = {
        ("reference", "bug"): "reference",
        ("control", "bug"): "control",
        ("detector", "clean"): "detector_silent",
    }.get((name, outcome))
    return ("inconclusive", misbehaved) if misbehaved else None


def is_of_observations(reason: str) -> bool:
    """Of an error that lies in what was observed; else nothing was."""
    return reason.partition(":")[0] in ("metric", "reference", "changed")


def _outcomes(
    header: Header, checks: Iterable[Mapping[str, Any]]
) -> Iterator[Tuple[str, str, Optional[str]]]:
    """(name, outcome, reason) of recorded checks; the predicate is applied anew.

    Only what kept a check from reporting is taken as recorded.
    """
    control: Mapping[str, Any] = {}
    for check in checks:
        name, outcome, reason = check["name"], check["outcome"], check["reason"]
        observations = decode(check.get("observations") or {})
        if name == "control":
            control = observations
        failed = outcome == "error" and not is_of_observations(reason or "")
        if not failed and name != "requirements":
            outcome, reason, _ = assess(header, name, observations, control)
        yield name, outcome, reason


def judge(
    header: Header,
    checks: Sequence[Mapping[str, Any]],
    planned: Optional[Sequence[str]] = None,
    parameters: Optional[Mapping[str, Any]] = None,
) -> Judgement:
    """The verdict of a run, from its recorded checks alone.

    Pure, so that stored evidence can be judged again. `planned`: the names of
    `list_checks`; a check that had to run and did not leaves no verdict. `parameters`:
    values that are not the defaults; what they show says nothing of the build.
    """
    header = at_values(header, parameters or {})
    results = list(_outcomes(header, checks))
    triggers = [outcome for name, outcome, _ in results if name == "trigger"]
    fault = next(filter(None, (gate_of(*result) for result in results)), None)
    if fault is None and not _complete(results, planned):
        fault = ("error", "no_report")
    hits: Optional[int] = None
    verdict, reason = "", None
    if fault:
        verdict, reason = fault
    else:
        hits = triggers.count("bug")
        verdict = "bug_present" if hits else "bug_absent"
    return Judgement(
        verdict=verdict,
        reason=reason,
        is_affected=None if parameters else _is_affected(header, verdict),
        hits=hits,
        trials=len(triggers),
        workarounds=_workarounds(verdict, results, planned or ()),
        refuted={n[8:]: o for n, o, _ in results if n.startswith("refuted_")},
    )


def judge_variant(
    header: Header, checks: Sequence[Mapping[str, Any]], planned: Sequence[str]
) -> Dict[str, str]:
    """The status of each workaround in a variant, from the checks of that variant.

    Known only where the control was clean and the trigger showed the bug there too.
    `planned`: the names of `variant_checks`.
    """
    results = list(_outcomes(header, checks))
    of = {
        name: {o for n, o, _ in results if n == name} for name in ("control", "trigger")
    }
    shown = of["control"] == {"clean"} and "bug" in of["trigger"]
    return _workarounds("bug_present" if shown else "", results, planned)


def misrecorded(
    header: Header, checks: Sequence[Mapping[str, Any]]
) -> List[Tuple[str, str]]:
    """(check, outcome) that the observations give where another one was recorded."""
    again = enumerate(_outcomes(header, checks))
    return [
        (name, outcome)
        for at, (name, outcome, reason) in again
        if not _is_recorded(checks[at], outcome, reason)
    ]


def _is_recorded(check: Mapping[str, Any], outcome: str, reason: Optional[str]) -> bool:
    """Evidence of earlier editions calls a changed result `metric`."""
    earlier = (reason or "").startswith("changed:") and check["reason"] == "metric"
    return bool(check["outcome"] == outcome and (earlier or check["reason"] == reason))


def _complete(results: Sequence[Any], planned: Optional[Sequence[str]]) -> bool:
    seen = {name for name, _, _ in results}
    wanted = set(REQUIRED_CHECKS) | ({"reference"} & set(planned or ()))
    return wanted <= seen


def _is_affected(header: Header, verdict: str) -> Optional[bool]:
    if header.fidelity == "mechanism_model":
        return None
    return {"bug_present": True, "bug_absent": False}.get(verdict)


def _workarounds(
    verdict: str, results: Sequence[Any], planned: Sequence[str]
) -> Dict[str, str]:
    prefix = "workaround_"
    ran: Dict[str, List[str]] = {n: [] for n in planned if n.startswith(prefix)}
    for name, outcome, _ in results:
        if name.startswith(prefix):
            ran.setdefault(name, []).append(outcome)
    known = verdict == "bug_present"
    return {
        name[len(prefix) :]: _status(outcomes) if known else "untested"
        for name, outcomes in ran.items()
    }


def _status(outcomes: Sequence[str]) -> str:
    """Of a workaround, from its trials: one with the bug is enough against it."""
    if "bug" in outcomes:
        return "does_not_help"
    return "verified" if set(outcomes) == {"clean"} else "untested"
