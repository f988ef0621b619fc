"""The page of an evidence object: its content, and how to verify it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from kb import badges
from kb.addresses import base_address
from kb.badges import Badge
from kb.languages import current_lang
from portable import harness
from runner.models import Evidence, Run
from runner.pages.observations import group_of
from runner.pages.phases import Phase, finished_phases, planned
from runner.pages.run_page import LOG_LINES, LogLine, Verdicted, tab_name, verdicted

VERIFY = (
    "curl -fsS {url} | python -c 'import json, sys; from portable import harness; "
    'e = json.load(sys.stdin); print(harness.evidence_digest(e) == e["digest"])\''
)


@dataclass(frozen=True)
class CheckRow:
    """An executed check and its resources. Times in s, memory in MiB."""

    name: str
    trial: int
    outcome: Badge
    reason: str
    duration_s: float | None
    cpu_s: float | None
    peak_mib: int | None
    exit: int | None
    cut_bytes: int


@dataclass(frozen=True)
class EvidencePage:
    shown: Verdicted
    phases: list[Phase]
    checks: list[CheckRow]
    log: list[LogLine]
    run: Run | None
    url: str
    verify: str
    # Whether the stored object still gives its digest, worked out for this page.
    digest_holds: bool

    @property
    def name(self) -> str:
        """Of the browser's tab."""
        found = self.shown.evidence
        about = [found.build_slug, *found.settings]
        return tab_name(str(self.shown.badge), found.record_id, *about)

    @property
    def elsewhere(self) -> str:
        """The command that runs it again, where that was on no device of its repro."""
        device, repro = self.shown.body["device"]["class"], self.shown.repro
        if repro is None or device == repro.device:
            return ""
        path = f"fixtures/issues/{repro.record.slug}/{repro.name}.py"
        return f"python portable/harness {path} --device {device}"

    @property
    def file_name(self) -> str:
        """Of a download."""
        found = self.shown.evidence
        about = [found.record_id or "evidence", found.build_slug, *found.settings]
        return f"{'-'.join(about)}-{found.short}.json"


def find(short: str) -> Evidence | None:
    """Evidence by the first twelve hex digits of its digest."""
    rows = Evidence.objects.select_related("record", "build")
    rows = rows.prefetch_related("record__repros")
    # A range: SQLite scans every row for LIKE. "g" follows the hex digits.
    start = f"sha256:{short}"
    return rows.filter(digest__gte=start, digest__lt=f"{start}g").first()


def build(evidence: Evidence, request: HttpRequest) -> EvidencePage:
    shown = verdicted(evidence)
    names = [item["name"] for item in shown.body["checks"]]
    names += [f"variant_{name}" for name in shown.body.get("variants", {})]
    path = reverse("api-evidence-detail", args=[evidence.digest])
    return EvidencePage(
        shown=shown,
        phases=list(finished_phases(planned(names), shown.body)),
        checks=[check_row(item) for item in shown.body["checks"]],
        log=evidence_log(shown.body),
        run=evidence.runs.order_by("created_at").first(),
        url=path,
        verify=VERIFY.format(url=base_address(request) + path),
        digest_holds=harness.evidence_digest(shown.body) == evidence.digest,
    )


def check_row(item: dict[str, Any]) -> CheckRow:
    lang = current_lang()
    return CheckRow(
        name=item["name"],
        trial=item.get("trial", 0) + 1,
        outcome=badges.of_check(item["name"], item["outcome"], lang),
        reason=badges.reason_text(item.get("reason"), lang),
        duration_s=item.get("duration_s"),
        cpu_s=item.get("cpu_s"),
        peak_mib=item.get("peak_mib"),
        exit=item.get("exit"),
        cut_bytes=(item.get("log") or {}).get("cut_bytes") or 0,
    )


def evidence_log(body: dict[str, Any]) -> list[LogLine]:
    """What the checks printed, as kept in the evidence (head and tail of each)."""
    lines: list[LogLine] = []
    for item in body["checks"]:
        log = item.get("log") or {}
        phase = group_of(item["name"])
        for text in (log.get("text") or "").splitlines():
            lines.append(LogLine(len(lines) + 1, None, phase, "", text))
        if log.get("cut_bytes"):
            text = _("[%(count)d bytes cut]") % {"count": log["cut_bytes"]}
            lines.append(LogLine(len(lines) + 1, None, phase, "", text))
    return lines[:LOG_LINES]
