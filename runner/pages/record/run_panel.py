"""The panel that starts a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.http import HttpRequest

from kb.languages import current_lang
from kb.models import Finding, Record, Repro
from kb.versions.order import release_of
from runner import access
from runner.access import requester
from runner.limits import MAX_TRIALS
from runner.models import Build
from runner.pages.jobs import parameter_form
from runner.pages.known_builds import KnownBuilds
from runner.pages.runs import waits
from runner.pages.runs.trials import Trials, trials_of
from runner.runs import scheduling, throttle
from runner.runs.admission import FleetSnapshot


@dataclass(frozen=True)
class Choice:
    """A build to choose; `refusal` says why it cannot take the run now, or is ""."""

    build: Build
    refusal: str


@dataclass(frozen=True)
class RunPanel:
    repros: list[Repro]
    builds: list[Choice]
    chosen: str
    # Why the button is off; empty where a run can be started.
    refusal: str
    place: scheduling.QueuePosition
    device: str
    trials: Trials
    max_trials: int
    timeout_s: float
    memory_mib: int
    may_run: bool
    is_served: bool
    has_gpu: bool
    newest: Finding | None
    # Whether the chosen build is still being installed: its runs wait for that.
    is_coming: bool = False
    # The build that the page is about, where it cannot be run here; else "".
    elsewhere: str = ""
    # Of each repro that has any, its parameters.
    parameters: list[parameter_form.Group] = field(default_factory=list)

    @property
    def needs_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def file_name(self) -> str:
        """Of the first repro, as its address names it."""
        return f"{self.repros[0].name}.py"

    @property
    def lacks_gpu(self) -> bool:
        """It could be started, and nobody would take it."""
        return self.needs_gpu and not self.has_gpu and not self.refusal

    @property
    def wait(self) -> list[str]:
        ahead = list(waits.of_wish(self.place.position, self.place.eta_s))
        return ahead if self.is_served else [*ahead, waits.nobody()]


def build(
    record: Record, request: HttpRequest, known_builds: KnownBuilds, torch: str
) -> RunPanel | None:
    """None for a record without a repro. `torch`: the build that the page is about."""
    repros = list(record.repros.all())
    if not repros:
        return None
    first = repros[0]
    fleet = FleetSnapshot()
    fleet.installations = known_builds.installations
    choices = choices_for(first, fleet, known_builds.runnable)
    chosen = choose(choices, torch)
    return RunPanel(
        repros=repros,
        builds=choices,
        chosen=chosen.build.slug if chosen else "",
        refusal=own_refusal(request) or (chosen.refusal if chosen else ""),
        place=scheduling.place_of_a_click(
            f"{chosen.build.slug}.{first.device}", fleet.online
        )
        if chosen
        else scheduling.QueuePosition(),
        device=first.device,
        trials=trials_of(first, record.findings.all()),
        max_trials=MAX_TRIALS,
        timeout_s=first.header.get("timeout_s", 60),
        memory_mib=first.header.get("memory_mib", 2048),
        may_run=access.may_run(request.user),
        is_served=bool(chosen and fleet.serving(chosen.build, first.device)),
        has_gpu=any(worker.devices for worker in fleet.online),
        newest=newest_finding(first, chosen.build.slug if chosen else ""),
        is_coming=bool(chosen and known_builds.is_coming(chosen.build.slug)),
        elsewhere="" if chosen and (not torch or names(torch, chosen.build)) else torch,
        parameters=parameter_form.groups(repros, request.GET),
    )


def choices_for(
    repro: Repro, fleet: FleetSnapshot, builds: list[Build]
) -> list[Choice]:
    """Every installed build, newest version first, with its refusal."""
    choices = []
    for build in builds:
        refusal = fleet.refusal(repro, build, repro.device)
        choices.append(Choice(build, refusal.detail(current_lang()) if refusal else ""))
    return choices


def names(torch: str, build: Build) -> bool:
    """Whether a reader who wrote this means that build: by slug or as its release."""
    return bool(torch) and torch in (build.slug, release_of(build.raw))


def choose(choices: list[Choice], torch: str) -> Choice | None:
    """The requested build, else the newest that can run."""
    requested = [choice for choice in choices if names(torch, choice.build)]
    runnable = [choice for choice in choices if not choice.refusal]
    return next(iter(requested + runnable + choices), None)


def own_refusal(request: HttpRequest) -> str:
    """The rate limit that keeps this reader from starting a run now, or ""."""
    refused = throttle.refusal(requester(request))
    return refused.detail(current_lang()) if refused else ""


def newest_finding(repro: Repro, slug: str) -> Finding | None:
    """Of the repro that is run if no other is chosen."""
    rows = [
        row
        for row in repro.record.findings.all()
        if row.is_fresh_verdict and (row.repro, row.build) == (repro.name, slug)
    ]
    return max(rows, key=lambda row: row.observed_at, default=None)
