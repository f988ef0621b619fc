"""A record's page: everything kb knows of it, put together for the template."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from typing import Any

from django.utils.safestring import SafeString

from kb.choices import SIGNATURE_LINES, ClaimKind, ClaimState, Upstream
from kb.findings import (
    checks,
    claims,
    contradictions,
    diagnoses,
    remedies,
    results,
    timeline,
    variants,
)
from kb.findings.checks import Words
from kb.findings.remedies import Remedy
from kb.findings.timeline import Timeline
from kb.models import Claim, Finding, Record, Repro
from kb.pages import affected_line, prose
from kb.pages.affected_line import AffectedPackage
from kb.pages.highlight import python_html
from kb.pages.prose import LanguageNote, Prose
from kb.versions import order
from kb.versions.ranges import parse_version

HISTORY_SHOWN = 20
# So many are shown without unfolding.
CLAIMS_OPEN = 4
SOURCES_OPEN = 2
# An upstream thread named in short.
THREAD = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")
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
    text: Prose
    onoff: OnOff | None
    helped: int
    tried: int
    reach: variants.Reach

    @property
    def name(self) -> str:
        return str(self.remedy.entry["name"])

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


@dataclass(frozen=True)
class ClaimRow:
    claim: Claim
    state: str
    source: dict[str, Any]
    check: str
    did: Words
    onoff: OnOff | None
    used: list[Finding]

    @property
    def builds(self) -> int:
        return len({row.build for row in self.used})

    @property
    def is_modelled(self) -> bool:
        """Only a model of the mechanism was run, not the bug itself."""
        return bool(self.used) and all(row.is_model for row in self.used)

    @property
    def last(self) -> Finding | None:
        return max(self.used, key=lambda row: row.observed_at, default=None)

    @property
    def tally(self) -> list[tuple[str, int]]:
        """Outcomes of the check, each with the number of its builds."""
        return sorted(Counter(row.outcome for row in self.used).items())


@dataclass(frozen=True)
class Source:
    """A repro as shown: its text in colour, its size, its short digest."""

    repro: Repro
    html: SafeString
    size: int
    lines: int


@dataclass(frozen=True)
class Revision:
    number: int
    row: Any
    changed: list[str]


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
    timelines: list[Timeline]
    language: LanguageNote | None
    repros: list[Source]
    related: list[Record]
    aliases: list[tuple[str, str]]
    signatures: list[SeenLine]
    history: list[Revision]

    @property
    def fix_kinds(self) -> list[str]:
        """How it is fixed, for a record that upstream calls fixed."""
        if self.record.upstream != Upstream.FIXED:
            return []
        return list(dict.fromkeys(fix["kind"] for fix in self.fixes))

    @property
    def judged(self) -> int:
        """Verdicts on the bug itself, each of a build and device."""
        return int(self.summary["present"] + self.summary["absent"])

    @property
    def first_claims(self) -> list[ClaimRow]:
        """Of those that execution contradicts, or of a record without such."""
        contested = {ClaimState.REFUTED.value, ClaimState.DISPUTED.value}
        first = [row for row in self.claims if row.state in contested]
        return (first or self.claims)[:CLAIMS_OPEN]

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


def build(record: Record, torch: str = "", *, with_history: bool = False) -> RecordPage:
    """`torch`: the build the reader asks about, by slug or version; "" = none.

    Revisions only where they are asked for: to compare them is most of the work.
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
        timelines=[
            axis
            for axis in timeline.of_record(record, results.cells(findings))
            if axis.changes
        ],
        language=prose.language_note(record),
        repros=[source(repro) for repro in record.repros.all()],
        related=list(Record.objects.visible().filter(id__in=record.related)),
        aliases=[(alias, alias_url(alias)) for alias in record.aliases],
        signatures=[
            SeenLine(row["text"], source_of(record, row))
            for row in record.signatures
            if row["kind"] in SIGNATURE_LINES
        ],
        history=history(record) if with_history else [],
    )


def documented_fix(record: Record, build: str, findings: list[Finding]) -> str:
    """The version from which torch is documented as fixed, at or below a build's."""
    raw = next(row.build_raw for row in findings if row.build == build)
    version = parse_version(raw).public
    bounds = [
        event["fixed"]
        for entry in record.affected
        if entry["package"] == timeline.TORCH
        for event in entry.get("events", [])
        if "fixed" in event
    ]
    below = [
        (bound, text)
        for text in bounds
        if (bound := parse_version(text).public) and version and bound <= version
    ]
    return max(below)[1] if below else ""


def source_of(record: Record, entry: dict[str, Any]) -> dict[str, Any]:
    key = entry.get("source")
    return next((item for item in record.sources if item["id"] == key), {})


def workaround(
    record: Record, remedy: Remedy, findings: list[Finding], torch: str
) -> Workaround:
    name, apply = remedy.entry["name"], remedy.entry["apply"]
    inputs = [row.as_claim_input() for row in findings]
    rows = [row for row in findings if row.check_name == f"workaround_{name}"]
    text = prose.workaround(record, name)
    text = Prose(without_repetition(text.html, apply), text.lang)
    by_build = claims.workaround_by_build(name, inputs).values()
    return Workaround(
        remedy,
        checks.title_of(record, f"workaround_{name}"),
        text,
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
        if not row.stands or row.is_model or row.outcome not in {"bug", "clean"}:
            continue
        for other in findings:
            same = other.evidence == row.evidence and other.repro == row.repro
            if same and other.check_name == "trigger" and other.outcome == "bug":
                return OnOff(other, row)
    return None


def claim_rows(
    record: Record, findings: list[Finding], torch: str = ""
) -> list[ClaimRow]:
    inputs = [row.as_claim_input() for row in findings]
    by_evidence = {
        (row.evidence, f"{row.repro}:{row.check_name}"): row for row in findings
    }
    rows = []
    for claim in record.claims.all():
        used = [
            by_evidence[item["evidence"], item["check"]]
            for item in claims.evidence_for(claim, inputs)
        ]
        rows.append(
            ClaimRow(
                claim=claim,
                state=ClaimState(claims.state(claim, inputs)).value,
                source=source_of(record, {"source": claim.source}),
                check=check_label(claim),
                did=checks.title_of(record, claim.check_ref.rpartition(":")[2]),
                onoff=on_off(used, findings, torch) if is_remedy(claim) else None,
                used=used,
            )
        )
    return rows


def check_label(claim: Claim) -> str:
    """The check's name; with its file where that is not the main repro."""
    repro, _, check = claim.check_ref.rpartition(":")
    return claim.check_ref if repro not in ("", "repro") else check


def is_remedy(claim: Claim) -> bool:
    """Only what is said to help has a with and a without."""
    check = claim.check_ref.split(":")[-1]
    helps = claim.kind in (ClaimKind.WORKAROUND, ClaimKind.FIX)
    return helps and check.startswith(("workaround_", "refuted_"))


def source(repro: Repro) -> Source:
    size = len(repro.source.encode())
    return Source(repro, python_html(repro.source), size, repro.source.count("\n"))


def history(record: Record) -> list[Revision]:
    """The newest revisions, each with the fields that it changed."""
    rows = list(record.history.select_related("history_user")[: HISTORY_SHOWN + 1])
    shown = []
    for at, row in enumerate(rows[:HISTORY_SHOWN]):
        before = rows[at + 1] if at + 1 < len(rows) else None
        changed = sorted(row.diff_against(before).changed_fields) if before else []
        hidden = {"revision", "modified", "files_digest", "content_digest"}
        shown.append(
            Revision(
                row.revision, row, [name for name in changed if name not in hidden]
            )
        )
    return shown


def alias_url(alias: str) -> str:
    """The thread's page; "" for an alias that names no GitHub thread."""
    thread = THREAD.fullmatch(alias)
    return f"https://github.com/{thread[1]}/issues/{thread[2]}" if thread else ""
