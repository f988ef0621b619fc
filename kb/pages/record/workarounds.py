"""Workarounds of a record as shown, each with what its execution changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from typing import Any

from kb.findings import checks, claims, remedies, variants
from kb.findings.checks import Words
from kb.findings.remedies import Remedy
from kb.models import Finding, Record
from kb.pages import prose
from kb.versions import order

LEADING_FENCE = re.compile(r"\s*<pre[^>]*><code[^>]*>([^<]*)</code></pre>\s*")


@dataclass(frozen=True)
class OnOff:
    """One evidence object: the trigger without and with something switched on."""

    without: Finding
    applied: Finding


@dataclass(frozen=True)
class Workaround:
    remedy: Remedy
    title: Words
    text: str
    onoff: OnOff | None
    helped: int
    tried: int
    reach: variants.Reach

    @property
    def status(self) -> str:
        return self.remedy.status

    @property
    def releases(self) -> list[str]:
        """Those on which an upgrade was seen to help, as a reader names them."""
        cells = self.remedy.seen_on
        labels = order.column_labels({cell.build: cell.build_raw for cell in cells})
        return [labels[cell.build] for cell in cells]

    @property
    def differs(self) -> bool:
        """It helps on some builds and not on others."""
        return 0 < self.helped < self.tried


def workaround(
    record: Record, remedy: Remedy, findings: list[Finding], torch: str
) -> Workaround:
    name, apply = remedy.entry["name"], remedy.entry["apply"]
    findings = remedies.of_plain_code(findings)
    rows = [row for row in findings if row.check_name == f"workaround_{name}"]
    by_build = claims.workaround_by_build(name, findings).values()
    return Workaround(
        remedy,
        checks.title_of(record, f"workaround_{name}"),
        without_repetition(prose.workaround(record, name), apply),
        on_off(rows, findings, torch),
        helped=sum(build_status == "verified" for build_status in by_build),
        tried=len(by_build),
        reach=variants.reach(name, findings, record.repros.all())
        if remedy.status == "verified"
        else variants.Reach(),
    )


def without_repetition(html: str, apply: str) -> str:
    """The prose without a leading fence that the copy line above already shows."""
    fence = LEADING_FENCE.match(html)
    same = fence and unescape(fence[1]).strip() == apply.strip()
    return html[fence.end() :] if fence and same else html


def on_off(
    rows: Iterable[Finding], findings: list[Finding], torch: str
) -> OnOff | None:
    """One of `rows` beside the trigger of the very same evidence.

    Of the build asked about, else of the newest; of one build, what was seen last.
    """

    def rank(row: Finding) -> Any:
        place = order.build_order(row.build_raw, row.build)
        return torch in (row.build, row.build_raw), place, row.observed_at

    for row in sorted(rows, key=rank, reverse=True):
        if row.stale or row.is_model or row.outcome not in {"bug", "clean"}:
            continue
        for other in findings:
            same = other.evidence == row.evidence and other.repro == row.repro
            if same and other.check_name == "trigger" and other.outcome == "bug":
                return OnOff(other, row)
    return None
