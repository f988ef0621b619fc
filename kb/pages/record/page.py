"""A record's page: everything kb knows of it, put together for the template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from kb.choices import SIGNATURE_LINES, ClaimState, Upstream
from kb.findings import contradictions, diagnoses, remedies, results, strip
from kb.findings.remedies import TORCH
from kb.findings.strip import Strip
from kb.models import Finding, Law, Record, Repro
from kb.pages.highlight import python_html
from kb.pages.law import law_of
from kb.pages.record.claim_rows import ClaimRow, claim_rows, contested, source_of
from kb.pages.record.workarounds import Workaround, workaround
from kb.versions import affected_line
from kb.versions.affected_line import AffectedPackage
from kb.versions.ranges import parse_version

# So many are shown without unfolding.
CLAIMS_OPEN = 4
SOURCES_OPEN = 2
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
class SeenLine:
    """A line by which the record is recognised, and the source that reports it.

    `source`: {} where the trigger printed it here.
    """

    text: str
    source: dict[str, Any]


@dataclass(frozen=True)
class RecordPage:
    record: Record
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
    signatures: list[SeenLine]
    law: Law | None

    @property
    def fix_kinds(self) -> list[str]:
        """How it is fixed, for a record that upstream calls fixed."""
        if self.record.upstream != Upstream.FIXED:
            return []
        return list(dict.fromkeys(fix["kind"] for fix in self.fixes))

    @property
    def judged(self) -> int:
        """Builds with a verdict on the bug itself."""
        return int(self.summary["present"] + self.summary["absent"])

    @property
    def first_claims(self) -> list[ClaimRow]:
        """Of those that execution contradicts, or of a record without such."""
        return (contested(self.claims) or self.claims)[:CLAIMS_OPEN]

    @property
    def further_claims(self) -> list[ClaimRow]:
        return [row for row in self.claims if row not in self.first_claims]

    @property
    def tested_workarounds(self) -> int:
        return sum(item.tried > 0 for item in self.workarounds)

    @property
    def first_sources(self) -> list[dict[str, Any]]:
        """Articles and what a range or a fix rests on, as far as they are few."""
        return self.ranked_sources[:SOURCES_OPEN]

    @property
    def further_sources(self) -> list[dict[str, Any]]:
        return self.ranked_sources[SOURCES_OPEN:]

    @property
    def ranked_sources(self) -> list[dict[str, Any]]:
        rests = {
            row.get("source") for row in (*self.record.affected, *self.record.fixes)
        }
        return sorted(
            self.record.sources,
            key=lambda item: not (item["kind"] == "article" or item["id"] in rests),
        )

    @property
    def answers_an_article(self) -> bool:
        return any(source["kind"] == "article" for source in self.record.sources)

    @property
    def refuted(self) -> int:
        return sum(row.state == ClaimState.REFUTED for row in self.claims)

    @property
    def verified(self) -> int:
        return sum(row.state == ClaimState.VERIFIED for row in self.claims)


def find(record_id: str) -> Record | None:
    """A record with a page: published or withdrawn."""
    rows = Record.objects.addressable().with_everything()
    return rows.filter(id=record_id).first()


def build(record: Record, torch: str = "", asked: str = "") -> RecordPage:
    """`torch`: the build whose runs are shown, by slug or version; `asked`: the one
    that the reader named. "" = none.
    """
    findings = list(record.findings.all())
    return RecordPage(
        record=record,
        workarounds=[
            workaround(record, item, findings, torch)
            for item in remedies.of_record(record, findings)
        ],
        diagnoses=diagnoses.of_record(
            record, [row.as_claim_input() for row in findings]
        ),
        affected=affected_line.of_record(record),
        claims=claim_rows(record, findings, torch),
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
            SeenLine(row["text"], source_of(record, row))
            for row in record.signatures
            if row["kind"] in SIGNATURE_LINES
        ],
        law=law_of(record),
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
