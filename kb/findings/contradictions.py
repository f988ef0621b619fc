"""Contradictions between documentation and runs. Shown, never resolved.

A pure function of a record's ranges, fixes and claims and of its findings, worked out
on every call: new evidence needs no other step. Incomplete evidence is no
contradiction: where one side says nothing certain, none is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kb.choices import ClaimState, Outcome, Verdict
from kb.environments.environment import Environment
from kb.findings import checks, claims
from kb.findings.results import cells
from kb.languages import Text, Text as _
from kb.models import Finding, Record
from kb.versions.affected import by_ranges
from kb.versions.devices import CUDA, elsewhere, excluded_by_hardware
from kb.versions.order import build_order
from kb.versions.ranges import (
    AFFECTED,
    NOT_AFFECTED,
    UNKNOWN,
    in_range,
    parse_version,
)

Json = dict[str, Any]
OPPOSITE = {Verdict.BUG_PRESENT: NOT_AFFECTED, Verdict.BUG_ABSENT: AFFECTED}
# Not avoided_by_default: a repro may still ask for the bug and get it.
FIXES_THAT_END_IT = {
    "root_fix": _("cause fixed"),
    "guarded": _("guarded, cause remains"),
    "removed": _("feature removed"),
}
SENTENCES = {
    ("range", Verdict.BUG_PRESENT): _(
        "Documented as not affected; we reproduce the bug on {build} ({hits}/{trials})."
    ),
    ("range", Verdict.BUG_ABSENT): _(
        "Documented as affected; we did not see the bug on {build} ({hits}/{trials})."
    ),
    ("fix", Verdict.BUG_PRESENT): _(
        "Documented as fixed in {documented} ({how}); we still reproduce it on {build} "
        "({hits}/{trials})."
    ),
    ("claim", Outcome.BUG): _(
        "{did}: {build} has the bug ({hits}/{trials}). If the claim were true, it "
        "would not."
    ),
    ("claim", Outcome.CLEAN): _(
        "{did}: no bug seen on {build} ({hits}/{trials}). If the claim were true, it "
        "would appear."
    ),
}
SENTENCES_OF_SEVERAL = {
    Outcome.BUG: _(
        "{did}: {builds} builds have the bug ({hits}/{trials}). If the claim were "
        "true, they would not."
    ),
    Outcome.CLEAN: _(
        "{did}: no bug seen on {builds} builds ({hits}/{trials}). If the claim were "
        "true, it would appear."
    ),
}


def everything(record: Record, findings: Iterable[Finding]) -> list[Json]:
    """Against ranges, fixes and claims, in this order."""
    rows = list(findings)
    ranges = of_record(record, rows)
    contradicted = {(item["build"], item["device"]) for item in ranges}
    fixes = [
        item
        for item in against_fixes(record, rows)
        if (item["build"], item["device"]) not in contradicted
    ]
    return [*ranges, *fixes, *against_claims(record, rows)]


def of_record(record: Record, findings: Iterable[Finding]) -> list[Json]:
    """Runs whose fresh verdict is the opposite of the documented range.

    Asked is what the run was made with: its packages and its device. Left out as well:
    a bug not seen on a GPU where the record says that the architecture matters.
    """
    if not record.affected:
        return []
    needs_gpu = any(item["key"] == "gpu_arch" for item in record.preconditions)
    return [
        contradiction("range", cell, documented, record.affected[0]["source"])
        for cell in cells(findings)
        if not (needs_gpu and cell.verdict == Verdict.BUG_ABSENT)
        for documented in [documented_of(record, environment_of(cell))]
        if OPPOSITE.get(Verdict(cell.verdict)) == documented
    ]


def environment_of(cell: Finding) -> Environment:
    """What the run was made with."""
    packages = dict(cell.made_with.get("packages", {}))
    if cudnn := cell.made_with.get("cudnn"):
        packages["cudnn"] = cudnn
    return Environment(
        torch_raw=cell.build_raw,
        packages={name: raw for name, raw in packages.items() if raw},
        gpus=(cell.device_name,) if cell.device_class == CUDA else (),
        device=cell.device_class,
    )


def documented_of(record: Record, env: Environment) -> str:
    """By ranges; unknown on a device of which they do not speak."""
    there = elsewhere(record.holds_on, env)
    if there or excluded_by_hardware(record.preconditions, env):
        return UNKNOWN
    return by_ranges(record, env).answer


def against_fixes(record: Record, findings: Iterable[Finding]) -> Iterator[Json]:
    """Releases at or after a documented fix in torch that still show the bug."""
    if any(item["package"] != "torch" for item in record.affected):
        return
    shown = [cell for cell in cells(findings) if cell.verdict == Verdict.BUG_PRESENT]
    for fix in record.fixes:
        ends = fix["kind"] in FIXES_THAT_END_IT and fix["version"]
        if not ends or fix["package"] != "torch":
            continue
        for cell in shown:
            reached = cell.device_class in fix.get("devices", [cell.device_class])
            if reached and is_after(cell.build_raw, fix["version"]):
                how = FIXES_THAT_END_IT[fix["kind"]]
                yield contradiction("fix", cell, fix["version"], fix["source"], how)


def is_after(raw: str, version: str) -> bool:
    """Whether this build certainly has what `version` brought."""
    events = [{"introduced": "0"}, {"fixed": version}]
    return in_range(events, parse_version(raw)) == NOT_AFFECTED


def against_claims(record: Record, findings: list[Finding]) -> Iterator[Json]:
    """Checks of refuted and disputed claims that show the opposite of the claim."""
    findings = sorted(findings, key=lambda row: build_order(row.build_raw, row.build))
    for claim in record.claims.all():
        state = claims.state(claim, findings)
        if state not in (ClaimState.REFUTED, ClaimState.DISPUTED):
            continue
        for finding in claims.evidence_for(claim, findings):
            if finding.outcome != claim.expects:
                yield contradiction(
                    "claim",
                    finding,
                    claim.expects,
                    claim.source,
                    claim=claim.cid,
                    did=checks.title_of(record, finding.check_name),
                )


def contradiction(
    kind: str,
    row: Finding,
    documented: str,
    source: str,
    how: Text | None = None,
    claim: str | None = None,
    did: checks.Words | str = "",
) -> Json:
    """A contradiction as the API shows it.

    `how` is the kind of the fix, `did` what the check of a claim does.
    """
    facts: Json = {
        "claim": claim,
        "source": source,
        "build": row.build,
        "device": row.device_class,
        "documented": documented,
        "observed": row.outcome if kind == "claim" else row.verdict,
        "hits": row.hits,
        "trials": row.trials,
        "evidence": row.evidence,
    }
    words = SENTENCES[kind, facts["observed"]]
    sentence = words.filled(how=how or "", did=did, **facts)
    return {"kind": kind, **facts, "sentence": sentence}


def of_several(items: list[Json], did: checks.Words) -> dict[str, str]:
    """One sentence for the builds on which a claim is contradicted alike.

    `did`: what the claim's check does.
    """
    first = items[0]
    if len(items) == 1:
        return dict(first["sentence"])
    counted = {key: sum(item[key] for item in items) for key in ("hits", "trials")}
    words = SENTENCES_OF_SEVERAL[first["observed"]]
    return words.filled(did=did, builds=len(items), **counted)
