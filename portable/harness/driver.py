"""Runs the checks of a repro in their order and puts the evidence together."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .checks import (
    cell_checks,
    check_order,
    check_spec,
    on_device,
    phase_of,
    read_repro,
    times_of,
    variant_checks,
)
from .judge import examine, gate_of, judge, judge_variant, unmet_requirement
from .parameters import at_values, choose
from .parts import parts_of
from .spec import Assessment, Cancelled, CheckSpec, Report, Start, reported_observations
from .values import (
    LOG_LINE_CHARS,
    PROTOCOL,
    SCHEMA,
    decode,
    dumps,
    encode,
    sealed,
    served_how,
    source_digest,
    summary,
    utc_now,
    visible,
)

# A check that was killed from outside starts again so often, and no more.
MOST_REPEATS = 2
# By what, as evidence says it and as a log does.
KILLERS = {
    "oom": "by the host, which had no memory left",
    "signal": "by a signal from outside",
}


def killed(kill: Mapping[str, Any]) -> str:
    """One of the `killed` of a check, in words."""
    return "killed after %.1f s %s" % (kill["after_s"], KILLERS[kill["by"]])


BUILD_KEYS = (
    "slug",
    "raw",
    "dist",
    "git",
    "cuda",
    "hip",
    "cudnn",
    "python",
    "platform",
    "packages",
)


class Run:
    """One run of one repro: its checks so far, and what the probe saw."""

    def __init__(
        self,
        source: str,
        start: Start,
        given: Optional[Mapping[str, Any]] = None,
        device: str = "",
    ) -> None:
        header, self.names = read_repro(source)
        self.header = on_device(header, device)
        self.parameters = choose(self.header, given or {})
        self.header = at_values(self.header, self.parameters)
        self.in_variants = variant_checks(source, self.names)
        self.digest = source_digest(source)
        self.parts = parts_of(source)
        self.start = start
        self.checks: List[Dict[str, Any]] = []
        self.identity: Dict[str, Any] = {}
        self.devices: List[Dict[str, Any]] = []

    def started(
        self, spec: CheckSpec, tell: Optional[Callable[[str], None]]
    ) -> Tuple[Report, List[Dict[str, Any]]]:
        """The report of a check, and how often it was killed from outside.

        Such an end says nothing of the check, so it starts again, MOST_REPEATS times.
        What it did itself is never repeated: that is what a run is to show.
        """
        kills: List[Dict[str, Any]] = []
        while True:
            report = self.start(spec)
            if not report.killed_by:
                return report, kills
            after_s = round(report.duration_s, 3)
            kills.append({"by": report.killed_by, "after_s": after_s})
            if len(kills) > MOST_REPEATS:
                return report, kills
            if tell:
                tell("%s; it starts again" % killed(kills[-1]))

    def spec(self, name: str, trial: int) -> CheckSpec:
        return check_spec(self.header, name, trial, self.parameters)

    def in_turn(
        self,
        order: Sequence[Tuple[str, int]],
        each: Callable[[str, int], Dict[str, Any]],
    ) -> bool:
        """Run these checks by `each`, up to one that ends the run; whether none did."""
        for name, trial in order:
            check = each(name, trial)
            if gate_of(name, check["outcome"], check["reason"]):
                return False
        return True

    def check(
        self, name: str, trial: int, tell: Optional[Callable[[str], None]] = None
    ) -> Dict[str, Any]:
        """Start one check, examine its report, record it; `tell` the progress."""
        report, kills = self.started(self.spec(name, trial), tell)
        if not report.failure and report.hello is not None:
            report.failure = self.contradiction(name, report.hello)
        if name == "requirements":
            found = self.requirements(report)
        else:
            found = examine(self.header, report, name, self.control())
        observations = reported_observations(report)
        if found.reason == "contract" or not isinstance(observations, dict):
            observations = {}
        log = "".join("[harness] %s\n" % killed(kill) for kill in kills)
        log += report.log_text
        if found.note:
            log += "[harness] %s\n" % visible(found.note)
        if report.failure and report.messages:
            early = visible(dumps(decode(report.messages[0])))[:LOG_LINE_CHARS]
            log += "[harness] reported before it failed: %s\n" % early
        recorded = {
            "name": name,
            "trial": trial,
            "outcome": found.outcome,
            "reason": found.reason,
            "observations": encode(observations),
            "duration_s": round(report.duration_s, 3),
            "cpu_s": round(report.cpu_s, 3),
            "peak_mib": report.peak_mib,
            "exit": report.exit,
            "served": report.served,
            "log": {"text": log, "cut_bytes": report.cut_bytes},
        }
        if kills:
            recorded["killed"] = kills
        self.checks.append(recorded)
        return recorded

    def contradiction(self, name: str, hello: Dict[str, Any]) -> Optional[str]:
        """A child that ran another source, other values or another torch than this."""
        ran = hello.get("repro"), hello.get("parameters") or {}
        if ran != (self.digest, self.parameters):
            return "refused"
        theirs, ours = hello["identity"], self.identity
        if name == "requirements" or not theirs:
            return None
        same = all(theirs.get(key) == ours.get(key) for key in ("raw", "git"))
        return None if same else "channel"

    def requirements(self, report: Report) -> Assessment:
        found = examine(self.header, report, "requirements")
        hello = report.hello or {}
        self.identity = _table_of(hello.get("identity"))
        self.devices = [_table_of(item) for item in hello.get("devices") or []]
        if found.outcome != "clean":
            return found
        facts = dict(_table_of(hello.get("facts")), devices=self.devices)
        facts.update(reported_observations(report))
        unmet = unmet_requirement(self.header, facts)
        return Assessment("not_applicable", unmet) if unmet else found

    def control(self) -> Dict[str, Any]:
        found = [c["observations"] for c in self.checks if c["name"] == "control"]
        return dict(decode(found[0])) if found else {}

    def build(self) -> Dict[str, Any]:
        return {key: self.identity.get(key) for key in BUILD_KEYS}

    def device(self) -> Dict[str, Any]:
        device: Dict[str, Any] = {
            "class": self.header.device,
            "name": None,
            "capability": None,
            "driver": None,
            "uuid": None,
            "count": len(self.devices),
        }
        if self.header.device == "cpu":
            device["name"] = self.identity.get("machine")
        elif self.devices:
            first = self.devices[0]
            named = ("name", "capability", "driver", "uuid")
            device.update({key: first.get(key) or None for key in named})
        return device

    def evidence(self, name: str) -> Dict[str, Any]:
        """What the checks show, judged; the rest of the evidence is the caller's."""
        header = self.header
        found: Dict[str, Any] = {
            "schema": SCHEMA,
            "state": "finished",
            "repro": {
                "name": name,
                "digest": self.digest,
                "fidelity": header.fidelity,
                "parts": self.parts,
            },
            "build": self.build(),
            "device": self.device(),
            "checks": self.checks,
            "limits": {
                "timeout_s": header.timeout_s,
                "memory_mib": header.memory_mib,
                "processes": None,
            },
            "harness": PROTOCOL,
        }
        judgement = judge(header, self.checks, self.names, self.parameters)
        found.update(dataclasses.asdict(judgement))
        if self.parameters:
            found["parameters"] = self.parameters
        return found

    def has_variants(self, verdict: str) -> bool:
        """Whether the code of its workarounds is to be tried at other values too."""
        at_defaults = verdict == "bug_present" and not self.parameters
        return at_defaults and bool(self.in_variants and self.header.variants)

    def variant(
        self, name: str, each: Callable[["Run", str, int, str], Any]
    ) -> Dict[str, Any]:
        """Control, trigger and the code of each workaround, at the variant's values.

        `each(run, check, trial, phase)` runs one check and returns it.
        """
        run = copy.copy(self)
        run.checks, run.parameters = [], dict(self.header.variants[name])
        run.header = at_values(self.header, run.parameters)
        phase = "variant_%s " % name
        for check in self.in_variants:
            seen = ""
            for trial in range(times_of(check, self.header.trials)):
                seen = each(run, check, trial, phase + check)["outcome"]
                if seen != "clean":
                    break
            if seen != {"control": "clean", "trigger": "bug"}.get(check, seen):
                break  # Nothing can be seen of a workaround where there is no bug.
        return {
            "parameters": run.parameters,
            "checks": run.checks,
            "workarounds": judge_variant(run.header, run.checks, self.in_variants),
        }


def _table_of(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


class Follower:
    """Runs one check at a time, reports it, and ends the run once it is cancelled."""

    def __init__(
        self,
        on_event: Optional[Callable[[str, str], None]],
        cancelled: Optional[Callable[[], bool]],
    ) -> None:
        self.on_event = on_event
        self.cancelled = cancelled

    def tell(self, phase: str, text: str) -> None:
        if self.on_event:
            self.on_event(phase, text)

    def __call__(
        self, run: "Run", check_name: str, trial: int, phase: str
    ) -> Dict[str, Any]:
        self.tell(phase, "started")
        check = run.check(check_name, trial, functools.partial(self.tell, phase))
        if self.cancelled and self.cancelled():
            raise Cancelled()
        self.tell(phase, summary(check))
        return check


def executed(run: "Run", name: str, count: int, each: Follower) -> Dict[str, Any]:
    """What all checks in their order show and, beside the bug, the variants."""

    def one(check: str, trial: int) -> Dict[str, Any]:
        return each(run, check, trial, phase_of(check, trial, count))

    first, *others = check_order(run.names, count)
    if run.in_turn([first], one):
        run.in_turn(others, one)
    evidence = run.evidence(name)
    if run.has_variants(evidence["verdict"]):
        names = run.header.variants
        evidence["variants"] = {name: run.variant(name, each) for name in names}
    return evidence


def drive(
    source: str,
    start: Start,
    *,
    name: str = "repro",
    record: Optional[str] = None,
    trials: Optional[int] = None,
    parameters: Optional[Mapping[str, Any]] = None,
    tier: str = "E",
    limits: Optional[Mapping[str, Any]] = None,
    origin: str = "harness",
    on_event: Optional[Callable[[str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
    quick: bool = False,
    device: str = "",
) -> Dict[str, Any]:
    """Run every check of a repro and return its evidence object, digest included.

    `start` starts one check and returns its Report. `on_event(phase, text)` shows a
    person the progress. `parameters`: values other than the defaults; without any, a
    run that shows the bug goes on with the variants. `quick`: only the checks that give
    a verdict. `device`: see `on_device`.
    Raises ContractError for a source that keeps no contract, or values or a device that
    it does not allow, Cancelled once `cancelled()` is true.
    """
    run = Run(source, start, parameters, device)
    if quick:
        run.names, run.in_variants = cell_checks(run.names), []
    started_at, clock = utc_now(), time.monotonic()
    each = Follower(on_event, cancelled)
    evidence = executed(run, name, trials or run.header.trials, each)
    evidence["limits"].update(limits or {})
    evidence.update(record=record, tier=tier, served=served_how(evidence["checks"]))
    took_s = round(time.monotonic() - clock, 3)
    evidence.update(telemetry={}, started_at=started_at, duration_s=took_s)
    evidence["origin"] = origin
    return sealed(evidence)
