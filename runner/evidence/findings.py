"""What one evidence shows, as findings: by check, diagnosis and variant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kb.choices import JUDGED, DeviceClass, Outcome, Verdict
from kb.environments.package_lines import canonical
from kb.findings.claims import CONCLUSIVE
from kb.models import Finding, Repro
from portable import harness
from runner.evidence import executed
from runner.models import Evidence

# Modules that are called otherwise than what one installs.
DISTRIBUTIONS = {
    "cudnn": "nvidia-cudnn-frontend",
    "flash_attn_interface": "flash-attn-3",
    "flash_attn.cute": "flash-attn-4",
}
# Longer texts are no words of torch's but data; they would also differ by chance.
MAX_SAID, MAX_ALL_SAID = 200, 2000


def findings_of(evidence: Evidence) -> Iterator[Finding]:
    """An unsaved finding per check and diagnosis, and per workaround of a variant.

    Always one of `trigger`, which has the verdict; none at all where the run had other
    values than those that were reviewed.
    """
    if evidence.parameters:
        return
    checks: dict[str, list[dict[str, Any]]] = {"trigger": []}
    for row in evidence.body["checks"]:
        if row["name"] != "requirements":
            checks.setdefault(row["name"], []).append(row)
    results = {name: (*combined(rows), rows) for name, rows in checks.items()}
    for name, outcome in diagnosed(evidence.body):
        results[name] = outcome, "", checks["trigger"]
    results.update(in_variants(evidence.body))
    for name, (outcome, reason, rows) in results.items():
        yield Finding(
            record=evidence.record,
            repro=evidence.repro_name,
            fidelity=evidence.body["repro"]["fidelity"],
            build=evidence.build_slug,
            build_raw=evidence.body["build"]["raw"],
            device_class=evidence.device_class,
            device_name=(evidence.body["device"]["name"] or "")[:120],
            check_name=name,
            outcome=outcome,
            reason=reason,
            verdict=evidence.verdict,
            verdict_reason=(evidence.body["reason"] or "")[:200],
            hits=sum(row["outcome"] == Outcome.BUG for row in rows),
            trials=len(rows),
            said=said(rows) if name == "trigger" else None,
            made_with=made_with(evidence) if name == "trigger" else {},
            origin=evidence.origin,
            stale=is_stale(evidence, name),
            evidence=evidence.digest,
            observed_at=evidence.started_at,
        )


def made_with(evidence: Evidence) -> dict[str, Any]:
    """`Finding.made_with`: what decides for whom the run answers, beside torch."""
    build, device = evidence.body["build"], evidence.body["device"]
    repro = repro_of(evidence)
    modules = repro.header.get("stack", {}) if repro else {}
    packages = {
        canonical(DISTRIBUTIONS.get(name, name)): build["packages"].get(name)
        for name in modules
    }
    facts = {"packages": packages}
    if evidence.device_class == DeviceClass.CUDA:
        facts |= {"cudnn": build["cudnn"], "capability": device["capability"]}
    return {name: value for name, value in facts.items() if value}


def said(rows: list[dict[str, Any]]) -> str | None:
    """`Finding.said` of one check over its trials."""
    if not rows:
        return None
    first, *others = [row.get("observations") or {} for row in rows]
    alike = {
        name: value
        for name, value in sorted(first.items())
        if isinstance(value, bool)
        or (isinstance(value, str) and len(value) <= MAX_SAID)
        if not name.startswith("diagnose_")
        if all(other.get(name) == value for other in others)
    }
    text = json.dumps(alike, ensure_ascii=False)
    return text if alike and len(text) <= MAX_ALL_SAID else None


def diagnosed(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(`diagnose_<name>`, outcome) for the code that the checks of a bug's run called.

    Clean where it was true in each trigger and false in the control.
    """
    if body["verdict"] != Verdict.BUG_PRESENT:
        return
    seen: dict[str, list[bool]] = {}
    for row in body["checks"]:
        for key, value in row["observations"].items():
            if row["name"] in ("control", "trigger") and key.startswith("diagnose_"):
                right = value is (row["name"] == "trigger")
                seen.setdefault(key, []).append(right)
    for key, told in seen.items():
        yield key, Outcome.CLEAN if all(told) else Outcome.BUG


def in_variants(
    body: dict[str, Any],
) -> Iterator[tuple[str, tuple[str, str, list[dict[str, Any]]]]]:
    """`variant_<variant> <workaround>` with outcome, reason and row of the check.

    Without the word workaround, which other findings begin with. One that raised says
    nothing: an old build may lack the dtype.
    """
    for variant, found in body.get("variants", {}).items():
        for name in found["workarounds"]:
            rows = [r for r in found["checks"] if r["name"] == f"workaround_{name}"]
            outcome, reason = combined(rows)
            if outcome in CONCLUSIVE or reason.startswith(("metric", "changed")):
                yield f"variant_{variant} {name}", (outcome, reason, rows)


def combined(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Outcome and reason of one check over its trials; "" without trials.

    The bug in one trial is enough against a workaround, whatever else went wrong.
    """
    outcomes = [row["outcome"] for row in rows]
    order = [Outcome.ERROR, Outcome.NOT_APPLICABLE, Outcome.BUG]
    if rows and rows[0]["name"].startswith("workaround_"):
        order.insert(0, order.pop())
    for outcome in order:
        if outcome in outcomes:
            return outcome, (rows[outcomes.index(outcome)]["reason"] or "")[:200]
    return (Outcome.CLEAN if rows else ""), ""


def repro_of(evidence: Evidence) -> Repro | None:
    """The repro as it is now. No query where repros are prefetched."""
    repros = evidence.record.repros.all() if evidence.record else ()
    return next((row for row in repros if row.name == evidence.repro_name), None)


def is_stale(evidence: Evidence, check: str = "trigger") -> bool:
    """Whether the protocol has changed, or what the check executes."""
    now = repro_of(evidence)
    is_current = evidence.body["harness"] == harness.PROTOCOL
    return not (is_current and executed.holds(evidence.body["repro"], now, check))


def rank(finding: Finding) -> tuple[bool, bool, datetime]:
    """Sort key: fresh beats stale, a judged verdict beats none, newer beats older."""
    return not finding.stale, finding.verdict in JUDGED, finding.observed_at
