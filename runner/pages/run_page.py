"""A run's page: phases, observations, environment, log; and evidence in a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, F, Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from kb import badges
from kb.badges import Badge
from kb.choices import JUDGED, OUR_ORIGINS, Fidelity, Verdict
from kb.findings import checks
from kb.languages import SEMICOLON, current_lang
from kb.models import Record, Repro
from kb.versions.order import build_order
from portable import harness
from runner import access, run_sentences
from runner.access import requester
from runner.evidence import executed
from runner.evidence.findings import is_stale
from runner.models import Evidence, LogChunk, Run, Worker
from runner.pages.jobs.parameter_form import hidden_fields
from runner.pages.observations import Observations, bug_of, group_of, observations_of
from runner.pages.phases import Phase, detail_of, label_of, run_phases
from runner.pages.runs import waits
from runner.pages.runs.killed import kills_of
from runner.runs import joining, live_log, scheduling

LOG_LINES = 2000
EVIDENCE_SHOWN = 50


@dataclass(frozen=True)
class LogLine:
    number: int
    at: float | None
    phase: str
    stream: str
    text: str


@dataclass(frozen=True)
class Verdicted:
    """What evidence shows, for the run's page and the evidence's own."""

    evidence: Evidence
    body: dict[str, Any]
    css: str
    badge: Badge
    sentence: str
    hits: int
    trials: int
    notes: list[str]
    observations: Observations
    bug: list[str]
    stale: bool
    # The repro with this very source, if the site has it: only that can be run again.
    repro: Repro | None

    @property
    def is_judged(self) -> bool:
        """Whether the trials count: without a verdict none of them is clean."""
        return self.body["verdict"] in JUDGED

    @property
    def raised(self) -> str:
        """The exception that ended it, as the check raised it; "" for none."""
        return next((row.raised for row in self.observations.rows if row.raised), "")

    @property
    def is_model(self) -> bool:
        return bool(self.body["repro"]["fidelity"] == Fidelity.MECHANISM_MODEL)


@dataclass(frozen=True)
class EvidenceRow:
    """Evidence in a table. `stale`: its repro has changed since."""

    evidence: Evidence
    stale: bool


@dataclass(frozen=True)
class RunPage:
    run: Run
    sentence: str
    phases: list[Phase]
    place: scheduling.QueuePosition
    # Why no worker takes it now; "" where one does, or it waits no more.
    unserved: str
    worker: Worker | None
    shown: Verdicted | None
    badge: Badge | None
    css: str
    log: list[LogLine]
    log_next: int
    # Which lines of a longer log these are; "" where they are all.
    log_cut: str
    may_cancel: bool
    # Who else waits for it, and whether one's own cancel would end it all the same.
    others: int
    ends_it: bool

    @property
    def name(self) -> str:
        """Of the browser's tab: how it stands, then which record on which build."""
        run = self.run
        verdict = str(self.badge or run.get_state_display().capitalize())
        return tab_name(verdict, run.repro.record_id, run.build_id, *run.settings)

    @property
    def again(self) -> list[tuple[str, str]]:
        """Fields of the form that asks for the same values."""
        return hidden_fields(self.run)

    @property
    def is_failed(self) -> bool:
        """It says why at the end of its log."""
        return self.run.verdict == Verdict.ERROR

    @property
    def answer_css(self) -> str:
        return self.shown.css if self.shown else self.css

    @property
    def now(self) -> Iterator[str]:
        """What a run that is not over does, in sentences."""
        if self.is_cancelling:
            yield _("The check under way is being stopped; no verdict is written.")
        else:
            yield self.sentence

    @property
    def then(self) -> Iterator[str]:
        """What comes next for it; of one that no worker takes, why."""
        if self.place.position is None and not self.is_cancelling:
            yield _("The verdict is written once, when every check has reported.")
        if self.unserved:
            yield self.unserved
        else:
            yield from waits.of_queued(self.place.position, self.place.eta_s)
        yield _("This page refreshes by itself; you may close it.")

    @property
    def elapsed_s(self) -> float:
        """Since it began to run or, while it waits, since it was asked for."""
        began = self.run.started_at if self.run.state == Run.State.RUNNING else None
        passed = timezone.now() - (began or self.run.created_at)
        # Not below 0 where the database's clock is ahead of this one.
        return max(0.0, passed.total_seconds())

    @property
    def is_cancelling(self) -> bool:
        """Asked to stop, and the worker has not ended it yet."""
        return self.run.cancel_requested and not self.run.is_over

    @property
    def reached(self) -> str:
        """The last phase that was begun, in words; "" for none."""
        return phase_words(self.run.phase) if self.run.phase else ""

    @property
    def title(self) -> str:
        """The phase in words, as the heading of a run that is under way."""
        if self.run.state == Run.State.QUEUED:
            return _("Queued")
        if self.run.state == Run.State.CANCELLED:
            return _("Cancelled")
        if self.is_cancelling:
            return _("Cancelling …")
        phase = self.run.phase and phase_words(self.run.phase)
        phase = phase or _("starting")
        return _("Running: %(phase)s") % {"phase": phase}


def tab_name(verdict: str, record_id: str | None, *rest: str) -> str:
    about = " · ".join(filter(None, [record_id, *rest]))
    return _("%(verdict)s: %(about)s") % {"verdict": verdict, "about": about}


def phase_words(phase: str) -> str:
    return f"{label_of(group_of(phase))} {detail_of(phase)}".strip()


def find(run_id: UUID) -> Run | None:
    rows = Run.objects.select_related("repro__record", "evidence__build", "build")
    run = rows.prefetch_related("repro__record__repros").filter(pk=run_id).first()
    if run and run.evidence and run.evidence.record_id == run.repro.record_id:
        run.evidence.record = run.repro.record
    return run


def build(run: Run, request: HttpRequest, after: int = 0) -> RunPage:
    lang = current_lang()
    shown = verdicted(run.evidence) if run.evidence else None
    log, cut = log_lines(run, after)
    steps = [] if run.is_over else live_log.steps(run)
    others = 0 if run.is_over else joining.others(run, requester(request))
    return RunPage(
        run=run,
        sentence=run_sentences.run_sentence(run)[lang],
        phases=list(run_phases(run, shown.body if shown else None, steps)),
        place=scheduling.place_in_queue(run),
        unserved=waits.unserved(run.build, run.device, run.repro)
        if run.state == Run.State.QUEUED
        else "",
        worker=Worker.objects.filter(name=run.worker).first() if run.worker else None,
        shown=shown,
        badge=run_badge(run, lang),
        css=badges.answer_css(run.verdict) if run.verdict else "",
        log=log,
        log_next=log[-1].number if log else after,
        log_cut=cut,
        may_cancel=not run.is_over and access.may_cancel(request, run),
        others=others,
        ends_it=not others or access.may_operate(request.user),
    )


def cancel(run: Run, request: HttpRequest) -> int:
    """How many others still wait for it."""
    outright = access.may_operate(request.user)
    return joining.cancel(run, requester(request), outright=outright) or 0


def run_badge(run: Run, lang: str) -> Badge | None:
    if not run.verdict:
        return None
    trials = run.evidence.body["trials"] if run.evidence else run.trials
    return badges.badge(
        run.verdict,
        run.hits or 0,
        trials or 0,
        run.repro.fidelity,
        lang,
        run.reason or "",
    )


def log_lines(run: Run, after: int = 0) -> tuple[list[LogLine], str]:
    """The live log from `after` on, of a run that failed its end; and what is cut."""
    cut = ""
    if run.verdict == Verdict.ERROR:
        before = run.log.count() - LOG_LINES
        if before > after:
            after, cut = before, _("Only the last 2000 lines are shown.")
    rows = live_log.lines(run, after, LOG_LINES + 1)
    if len(rows) > LOG_LINES:
        cut = _("Only the first 2000 lines are shown.")
    return [line_of(row) for row in rows[:LOG_LINES]], cut


def line_of(row: LogChunk) -> LogLine:
    return LogLine(row.seq, row.at, group_of(row.check_name), row.stream, row.text)


# --- evidence -----------------------------------------------------------------------
def verdicted(evidence: Evidence) -> Verdicted:
    lang = current_lang()
    body = evidence.body
    fidelity = body["repro"]["fidelity"]
    is_model = fidelity == Fidelity.MECHANISM_MODEL and body["verdict"] in JUDGED
    stale = evidence.record_id is not None and is_stale(evidence)
    repro = repro_of(evidence)
    header = repro.header if repro else {}
    return Verdicted(
        evidence=evidence,
        body=body,
        css=""
        if evidence.is_sent or stale or is_model
        else badges.answer_css(body["verdict"]),
        badge=badges.faced(badges.of_result(body, fidelity, lang), evidence, lang),
        sentence=sentence_of(evidence),
        hits=body["hits"] or 0,
        trials=body["trials"] or 0,
        notes=[*kills_of(body), *notes_of(body, evidence.record)],
        observations=observations_of(body["checks"], header),
        bug=bug_of(header),
        stale=stale,
        repro=repro,
    )


def repro_of(evidence: Evidence) -> Repro | None:
    """The repro whose source it was; no query where its record still has that."""
    for repro in evidence.record.repros.all() if evidence.record else ():
        if repro.digest == evidence.repro_digest:
            return repro
    return Repro.objects.filter(digest=evidence.repro_digest).first()


def sentence_of(evidence: Evidence) -> str:
    """What it shows and, where it was sent, that nothing follows of it."""
    lang = current_lang()
    told = run_sentences.evidence_sentence(evidence.body)[lang]
    if not evidence.is_sent:
        return told
    said = _("Sent by %(origin)s; not run here.")
    return told + ("" if lang == "zh" else " ") + said % {"origin": evidence.origin}


def notes_of(body: dict[str, Any], record: Record | None) -> list[str]:
    """How the workarounds and the refuted recommendations of this run came out."""
    lang = current_lang()

    def named(kind: str, names: list[str]) -> str:
        """Each as the record calls it; without a record by the name of its check."""
        titles = [
            checks.title_of(record, f"{kind}_{name}")[lang] if record else name
            for name in names
        ]
        return SEMICOLON[lang].join(titles)

    by_status: dict[str, list[str]] = {}
    for name, status in body.get("workarounds", {}).items():
        by_status.setdefault(status, []).append(name)
    colon = "：" if lang == "zh" else ": "
    notes = [
        f"{badges.workaround(status, lang)[1]}{colon}{named('workaround', names)}"
        for status, names in by_status.items()
    ]
    useless = [name for name, out in body.get("refuted", {}).items() if out == "bug"]
    if useless:
        shown = named("refuted", useless)
        notes.append(_("Confirmed useless: %(names)s") % {"names": shown})
    return notes


def evidence_rows(record: Record) -> list[EvidenceRow]:
    """Evidence of a record: newest build first, then newest run.

    What others sent takes no place of ours. Of the bodies, which may be large, only
    what the table shows.
    """
    is_ours = ExpressionWrapper(Q(origin__in=OUR_ORIGINS), BooleanField())
    rows = (
        record.evidence.select_related("build")
        .defer("body")
        .annotate(
            raw=F("body__build__raw"),
            device_name=F("body__device__name"),
            hits=F("body__hits"),
            trials=F("body__trials"),
            fidelity=F("body__repro__fidelity"),
            reason=F("body__reason"),
            protocol=F("body__harness"),
            ran=F("body__repro"),
        )
        .order_by(is_ours.desc(), "-started_at")
    )
    now = {repro.name: repro for repro in record.repros.all()}
    shown = list(rows[:EVIDENCE_SHOWN])
    table = [
        EvidenceRow(
            row,
            stale=not executed.holds(row.ran, now.get(row.repro_name))
            or row.protocol != harness.PROTOCOL,
        )
        for row in shown
    ]
    return sorted(
        table,
        key=lambda row: build_order(row.evidence.raw, row.evidence.build_slug),  # type: ignore[attr-defined]
        reverse=True,
    )
