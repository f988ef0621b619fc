"""What runs show of each workaround of a record, in the order in which to try them.

Code and settings that a check applies are judged by it (`kb.findings.claims`). Another
release is judged by what it did itself: the bug on builds below, none on those above.
What no check applies was not executed, and it is said why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kb.choices import FRAMEWORKS, JUDGED, DeviceClass, Fidelity, Outcome, Verdict
from kb.findings import claims, results
from kb.models import Finding, Record
from kb.records.framework_lines import repro_of

TORCH = "torch"
UPGRADE = "upgrade"
DOES_NOT_HELP = "does_not_help"
# Why a workaround without a check was not executed, by its kind.
NOT_EXECUTED = {UPGRADE: "release", "downgrade": "release", "config": "setting"}
MODEL, GPU, BUG_UNSEEN, NO_RESULT = "model", "gpu", "bug_unseen", "no_result"
CHANGED = "changed"
REASONS = ("release", "setting", MODEL, GPU, BUG_UNSEEN, NO_RESULT, CHANGED)


@dataclass(frozen=True)
class Line:
    """A workaround in the words of a framework; without `evidence` it was not run.

    `title`, `url`: of the documentation or source that it is from.
    """

    framework: str
    apply: str
    title: str
    url: str
    status: str
    evidence: str | None

    @property
    def label(self) -> str:
        return FRAMEWORKS[self.framework]


@dataclass(frozen=True)
class Remedy:
    """A workaround as it is documented, and what runs show of it.

    `lines`: for those who train with a framework, in the order of `FRAMEWORKS`.
    `seen_on`: builds without the bug above those with it, where it is an upgrade.
    `not_executed`: why no run shows what it does (`REASONS`), "" where one could.
    """

    entry: dict[str, Any]
    status: str
    evidence: str | None
    seen_on: list[Finding]
    not_executed: str
    lines: tuple[Line, ...] = ()

    def shown(self) -> dict[str, Any]:
        """What runs show of it, as answers have it."""
        return {
            "status": self.status,
            "evidence": self.evidence,
            "seen_on": [cell.build for cell in self.seen_on],
            "not_executed": self.not_executed or None,
        }


def of_record(
    record: Record, findings: Sequence[Finding], raw: str | None = None
) -> list[Remedy]:
    """`raw`: the version of a build of which more is to be said than of others."""
    plain = of_plain_code(findings)
    here = [row for row in plain if row.build_raw == raw]
    above = builds_above(record, findings)
    found = []
    for entry in record.workarounds:
        name = entry["name"]
        status, evidence = claims.workaround_status(name, here)
        if evidence is None:
            status, evidence = claims.workaround_status(name, plain)
        seen_on = above if entry["kind"] == UPGRADE else []
        if seen_on and evidence is None:
            status, evidence = "verified", seen_on[0].evidence
        reason = "" if evidence else not_executed(record, entry, findings)
        lines = tuple(lines_of(record, entry, findings))
        found.append(Remedy(entry, status, evidence, seen_on, reason, lines))
    return found


def of_plain_code(findings: Iterable[Finding]) -> list[Finding]:
    """Without runs of the lines of frameworks, which are shown beside those lines."""
    theirs = {repro_of(name) for name in FRAMEWORKS}
    return [row for row in findings if row.repro not in theirs]


def lines_of(
    record: Record, entry: dict[str, Any], findings: Sequence[Finding]
) -> Iterator[Line]:
    """Each with what the runs in its own framework show."""
    sources = {row["id"]: row for row in record.sources}
    for name in FRAMEWORKS:
        if line := entry.get("lines", {}).get(name):
            ran = [row for row in findings if row.repro == repro_of(name)]
            status, evidence = claims.workaround_status(entry["name"], ran)
            source = sources[line["source"]]
            told = source["title"], source["url"]
            yield Line(name, line["apply"], *told, status, evidence)


def best(remedies: Iterable[Remedy]) -> Remedy | None:
    """The first that was verified, else the first that was not seen to fail."""
    listed = list(remedies)
    for status in ("verified", "untested"):
        for remedy in listed:
            if remedy.status == status:
                return remedy
    return None


def in_framework(
    listed: Sequence[Remedy], *frameworks: str
) -> tuple[Remedy, Line] | None:
    """The first line for the first of these that has one, and what it is a line of.

    Nothing that was not verified stands before what was.
    """
    first = best(listed)
    good = [one for one in listed if first and one.status == first.status]
    lines = [(one, line) for one in good for line in one.lines]
    helping = [row for row in lines if row[1].status != DOES_NOT_HELP]
    for name in frameworks:
        for remedy, line in helping:
            if line.framework == name:
                return remedy, line
    return None


def builds_above(record: Record, findings: Iterable[Finding]) -> list[Finding]:
    """Builds without the bug above all that have it, where a torch release fixed it."""
    if not any(fix["package"] == TORCH and fix.get("version") for fix in record.fixes):
        return []
    ordered = [cell for cell in results.cells(findings) if cell.verdict in JUDGED]
    found: dict[str, Finding] = {}
    for device in DeviceClass.values:
        judged = [cell for cell in ordered if cell.device_class == device]
        bad = [
            at for at, cell in enumerate(judged) if cell.verdict == Verdict.BUG_PRESENT
        ]
        if bad:
            found |= {cell.build: cell for cell in judged[bad[-1] + 1 :]}
    return list(found.values())


def not_executed(
    record: Record, entry: dict[str, Any], findings: Iterable[Finding]
) -> str:
    """Why no run shows what it does; "" where any machine could show it."""
    check = f"workaround_{entry['name']}"
    repros = [repro for repro in record.repros.all() if check in repro.checks]
    real = {r.device for r in repros if r.fidelity != Fidelity.MECHANISM_MODEL}
    if not real:
        return NOT_EXECUTED.get(entry["kind"], MODEL if repros else "")
    tried = {
        row.verdict: row
        for row in findings
        if row.check_name == check and not row.stale
    }
    last = tried.get(Verdict.BUG_PRESENT)
    if last and last.outcome == Outcome.ERROR:
        return CHANGED if last.reason.startswith(CHANGED) else NO_RESULT
    if tried.keys() == {Verdict.BUG_ABSENT}:
        return BUG_UNSEEN
    seen = {row.device_class for row in findings if row.verdict in JUDGED}
    return GPU if real == {DeviceClass.CUDA} and real.isdisjoint(seen) else ""
