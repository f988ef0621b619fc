"""On which build a record's page opens: one for everything that is shown there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kb.choices import DeviceClass
from kb.models import Finding, Record
from kb.pages.reader_choice import ReaderChoice
from kb.versions.order import build_order
from runner.pages.known_builds import KnownBuilds
from runner.pages.squares import JUDGED


@dataclass(frozen=True)
class Choice:
    """A torch build to ask about: one we know by slug, else a version as typed."""

    value: str
    raw: str
    known: bool


@dataclass(frozen=True)
class Opening:
    """`asked`: the build that the reader chose; None: the record states its range.

    `choice`: that, else the one on which its runs are shown.
    """

    asked: Choice | None
    choice: Choice | None
    choices: list[Choice]
    device: str
    devices: list[str]

    @property
    def torch(self) -> str:
        return self.choice.value if self.choice else ""


def of_record(record: Record, reader: ReaderChoice, builds: KnownBuilds) -> Opening:
    findings = list(record.findings.all())
    choices = known_choices(builds, findings)
    asked = requested(reader.torch, choices)
    choice = asked or own_choice(
        record, findings, choices, {build.slug for build in builds.runnable}
    )
    if choice and not choice.known:
        choices = [choice, *choices]
    devices = device_classes(record, findings)
    device = reader.device if reader.device in devices else devices[0]
    return Opening(asked, choice, choices, device, devices)


def known_choices(builds: KnownBuilds, findings: list[Finding]) -> list[Choice]:
    """Builds this site knows, newest version first."""
    raw = {build.slug: build.raw for build in builds.builds}
    raw |= {row.build: row.build_raw for row in findings}
    ordered = sorted(raw, key=lambda slug: build_order(raw[slug], slug), reverse=True)
    return [Choice(slug, raw[slug], known=True) for slug in ordered]


def requested(torch: str, choices: Iterable[Choice]) -> Choice | None:
    """The build that the reader names, by slug or version; known here or not."""
    if not torch:
        return None
    for choice in choices:
        if torch in (choice.value, choice.raw):
            return choice
    return Choice(torch, torch, known=False)


def own_choice(
    record: Record, findings: list[Finding], choices: list[Choice], runnable: set[str]
) -> Choice | None:
    """The newest build with a verdict on the record's own device, best one of here.

    Without any: for a repro that needs no GPU, the newest build that can run it.
    """
    device = own_device(record)
    judged = {
        row.build
        for row in findings
        if row.is_fresh_verdict
        and not row.is_model
        and row.device_class == device
        and row.verdict in JUDGED
    }
    seen = [choice for choice in choices if choice.value in judged]
    here = [choice for choice in seen if choice.value in runnable]
    if device == DeviceClass.CPU and not seen:
        here = [choice for choice in choices if choice.value in runnable]
    return next(iter(here + seen), None)


def own_device(record: Record) -> str:
    """Of the repro of the bug itself, else of its model."""
    repros = sorted(record.repros.all(), key=lambda repro: repro.is_model)
    return repros[0].device if repros else DeviceClass.CPU.value


def device_classes(record: Record, findings: list[Finding]) -> list[str]:
    """The record's own, then others with a result; never empty."""
    devices = [own_device(record)]
    devices += [row.device_class for row in findings if not row.stale]
    return list(dict.fromkeys(devices))
