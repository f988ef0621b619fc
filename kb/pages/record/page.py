"""A record's page: everything kb knows of it, put together for the template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from kb.addresses import record_or_404
from kb.choices import FRAMEWORKS, SIGNATURE_LINES, ClaimState, Upstream
from kb.findings import contradictions, diagnoses, remedies, results, strip
from kb.findings.remedies import TORCH, UPGRADE
from kb.findings.strip import Strip
from kb.languages import current_lang
from kb.models import Finding, Law, Record, Repro
from kb.pages import prose
from kb.pages.highlight import python_html
from kb.pages.law import law_of
from kb.pages.record.claim_rows import ClaimRow, claim_rows, source_of
from kb.pages.record.curve import Curve, curve_of
from kb.pages.record.workarounds import Workaround, workaround
from kb.versions import affected_line
from kb.versions.affected_line import AffectedPackage
from kb.versions.ranges import parse_version

# Of a root cause so much is open: 120 words of English.
CAUSE_OPEN = 120
ROOT_FIX = "root_fix"
# An upstream thread named in short.
THREAD = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


@dataclass(frozen=True)
class Source:
    """A repro as shown: its text in colour, its size, its short digest."""

    repro: Repro
    html: SafeString
    size: int
    lines: int


@dataclass(frozen=True)
class RecordPage:
    record: Record
    trust: results.Trust
    workarounds: list[Workaround]
    diagnoses: list[dict[str, Any]]
    affected: list[AffectedPackage]
    claims: list[ClaimRow]
    contradictions: list[dict[str, Any]]
    summary: dict[str, Any]
    fixes: list[dict[str, Any]]
    strips: list[Strip]
    repros: list[Source]
    related: list[Record]
    aliases: list[tuple[str, str]]
    # Lines that tell, each with its source: {} where it was printed here.
    signatures: list[tuple[str, dict[str, Any]]]
    law: Law | None
    # Its beginning, and the rest.
    cause: tuple[str, str]
    curve: Curve | None

    @property
    def versioned_fixes(self) -> list[dict[str, Any]]:
        return [fix for fix in self.fixes if fix.get("version")]

    @property
    def fixed_in(self) -> list[str]:
        """ "torch 2.5.0" where the cause itself is gone, of a record called fixed."""
        is_fixed = self.record.upstream == Upstream.FIXED
        gone = [fix for fix in self.versioned_fixes if fix["kind"] == ROOT_FIX]
        return [f"{fix['package']} {fix['version']}" for fix in gone if is_fixed]

    @property
    def refuted(self) -> list[ClaimRow]:
        return [row for row in self.claims if row.state == ClaimState.REFUTED]

    @property
    def other_claims(self) -> list[ClaimRow]:
        return [row for row in self.claims if row.state != ClaimState.REFUTED]

    @property
    def conditions(self) -> list[str]:
        """What must be so for the bug to be a reader's own."""
        lang = current_lang()
        installed = [
            _("%(package)s %(versions)s is installed.")
            % {"package": item.package, "versions": item.ranges}
            for item in self.affected
            if item.ranges
        ]
        return installed + [row["text"][lang] for row in self.record.preconditions]

    @property
    def best(self) -> Workaround | None:
        """What to do first."""
        chosen = remedies.best(item.remedy for item in self.workarounds)
        return next((w for w in self.workarounds if w.remedy is chosen), None)

    @property
    def lines(self) -> list[tuple[Workaround, remedies.Line]]:
        """What to do first with each framework that a workaround has a line for."""
        listed = [item.remedy for item in self.workarounds]
        found = [remedies.in_framework(listed, name) for name in FRAMEWORKS]
        by_remedy = {id(item.remedy): item for item in self.workarounds}
        return [(by_remedy[id(row[0])], row[1]) for row in found if row]

    @property
    def upgrade(self) -> Workaround | None:
        """Another release that helps, where that is not what to do first."""
        upgrades = [w for w in self.workarounds if w.remedy.entry["kind"] == UPGRADE]
        return next((w for w in upgrades if w is not self.best), None)

    @property
    def tested_workarounds(self) -> int:
        return sum(item.tried > 0 for item in self.workarounds)

    @property
    def ranked_sources(self) -> list[dict[str, Any]]:
        """First articles, and what a range or a fix rests on."""
        rests = {
            row.get("source") for row in (*self.record.affected, *self.record.fixes)
        }
        return sorted(
            self.record.sources,
            key=lambda item: not (item["kind"] == "article" or item["id"] in rests),
        )

    @property
    def never_ran_on(self) -> list[str]:
        """Devices of its repros without a strip."""
        devices = {repro.device for repro in self.record.repros.all()}
        return sorted(devices - {strip.device for strip in self.strips})


def find(record_id: str) -> Record:
    """A record with a page: published or withdrawn. Raises Http404."""
    return record_or_404(Record.objects.addressable().with_everything(), record_id)


def build(record: Record, torch: str, asked: str) -> RecordPage:
    """`torch`: the build whose runs are shown, by slug or version; `asked`: the one
    that the reader named. "" = none.
    """
    findings = list(record.findings.all())
    return RecordPage(
        record=record,
        trust=results.trust(findings),
        workarounds=[
            workaround(record, item, findings, torch)
            for item in remedies.of_record(record, findings)
        ],
        diagnoses=diagnoses.of_record(record, findings),
        affected=affected_line.of_record(record),
        claims=claim_rows(record, findings),
        contradictions=[
            item | {"fixed_in": documented_fix(record, item["build"], findings)}
            for item in contradictions.of_record(record, findings)
        ],
        summary=results.summary(findings),
        fixes=[fix | {"source": source_of(record, fix)} for fix in record.fixes],
        strips=strip.of_record(record, findings, asked),
        repros=[source(repro) for repro in record.repros.all()],
        related=list(Record.objects.visible().filter(id__in=record.related)),
        aliases=[(alias, alias_url(alias)) for alias in record.aliases],
        signatures=[
            (row["text"], source_of(record, row))
            for row in record.signatures
            if row["kind"] in SIGNATURE_LINES
        ],
        law=law_of(record),
        cause=prose.parted(prose.section(record, "root_cause"), CAUSE_OPEN),
        curve=curve_of(record, findings),
    )


def documented_fix(record: Record, build: str, findings: list[Finding]) -> str:
    """The version from which torch is documented as fixed, at or below a build's."""
    raw = next(row.build_raw for row in findings if row.build == build)
    version = parse_version(raw).public
    bounds = [
        event["fixed"]
        for entry in record.affected
        if entry["package"] == TORCH
        for event in entry.get("events", [])
        if "fixed" in event
    ]
    below = [
        (bound, text)
        for text in bounds
        if (bound := parse_version(text).public) and version and bound <= version
    ]
    return max(below)[1] if below else ""


def source(repro: Repro) -> Source:
    size = len(repro.source.encode())
    return Source(repro, python_html(repro.source), size, repro.source.count("\n"))


def alias_url(alias: str) -> str:
    """The thread's page; "" for an alias that names no GitHub thread."""
    thread = THREAD.fullmatch(alias)
    return f"https://github.com/{thread[1]}/issues/{thread[2]}" if thread else ""
