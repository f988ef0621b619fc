"""`manage.py bisect`: the two neighbouring builds between which a bug comes or goes."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from kb.choices import DeviceClass
from kb.models import Finding, Repro
from kb.releases import sides
from kb.versions.order import build_order
from runner import exits
from runner.builds import registry
from runner.evidence import store
from runner.models import Build
from runner.runs import bisect
from runner.runs.bisect import GOOD, UNKNOWN, Turn
from runner.worker.execution import Job, Listeners, run_now

FOUND, USAGE = 0, 2


@dataclass(frozen=True)
class Step:
    """One build that was asked, and how it answered."""

    build: str
    answer: str
    verdict: str
    how: str  # evidence | run
    evidence: str


@dataclass
class Asked:
    """What is known of a repro on one class of device, and what was asked of it."""

    repro: Repro
    device: str
    raw: dict[str, str]
    known: dict[str, Finding]
    again: bool
    steps: list[Step] = field(default_factory=list)

    @property
    def hits(self) -> list[tuple[int, int]]:
        return [(row.hits, row.trials) for row in self.known.values()]

    def can_run(self, build: str) -> bool:
        return registry.installation_for(build) is not None

    def candidates(self) -> list[str]:
        """Builds with a result or an installation here, oldest version first."""
        several = {
            slug for slug in self.raw if slug in self.known or self.can_run(slug)
        }
        return sorted(several, key=lambda slug: build_order(self.raw[slug], slug))


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Find the two neighbouring builds between which a bug comes or goes: by the "
        "evidence that is there, else by running the repro on builds of this machine, "
        "which is kept. Exit: 0 found, 2 else."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("record", metavar="ID", help="e.g. NAN-0008")
        side = "a release (2.4.1) or a build (2.4.1-cu121)"
        parser.add_argument("--good", required=True, metavar="BUILD", help=side)
        parser.add_argument("--bad", required=True, metavar="BUILD", help=side)
        parser.add_argument("--repro", default="repro", help="name in the record")
        parser.add_argument("--device", choices=DeviceClass.values)
        parser.add_argument(
            "--again", action="store_true", help="run also where there is evidence"
        )
        parser.add_argument("--json", action="store_true", help="print it as data")

    def run_from_argv(self, argv: list[str]) -> None:
        exits.crash_with_two()
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            asked = known_of(options)
            builds, first = span(asked, options["good"], options["bad"])
            self.begin(asked, builds)
            turn = bisect.search(builds, first, lambda build: self.ask(asked, build))
        except bisect.Contradicted as error:
            refuse(
                f"{error.build} is {error.answer}, not {error.said}: "
                "choose another one for that end."
            )
        except DatabaseError as error:
            refuse(f"Nothing can be read ({error}): run migrate and load_records.")
        if options["json"]:
            data = document(turn, first, asked.steps)
            self.stdout.write(json.dumps(data, indent=1))
        else:
            self.stdout.write("\n".join(conclusion(turn, first, asked.steps)))

    def begin(self, asked: Asked, builds: list[str]) -> None:
        self.stderr.write(
            f"{asked.repro.record_id} {asked.repro.name} on {asked.device}: "
            f"{len(builds)} builds from {builds[0]} to {builds[-1]}"
        )

    def ask(self, asked: Asked, build: str) -> str:
        row, how = asked.known.get(build), "evidence"
        uncertain = bisect.is_uncertain(asked.hits)
        answer = UNKNOWN
        if row:
            answer = bisect.answer_of(row.verdict, row.trials, uncertain=uncertain)
        if (answer == UNKNOWN or asked.again) and asked.can_run(build):
            row, how = self.run(asked, build), "run"
            asked.known[build] = row
            uncertain = bisect.is_uncertain(asked.hits)
            answer = bisect.answer_of(row.verdict, row.trials, uncertain=uncertain)
        verdict, digest = (row.verdict, row.evidence) if row else ("", "")
        asked.steps.append(Step(build, answer, verdict, how, digest))
        self.stderr.write(f"{build}: {answer} ({verdict or 'no result'}, by {how})")
        return answer

    def run(self, asked: Asked, build: str) -> Finding:
        """Run it here, keep the evidence, and give its finding."""
        repro = asked.repro
        installation = registry.installation_for(build, repro.header.get("stack"))
        assert installation  # noqa: S101  # `can_run` saw one
        trials = bisect.trials_of(repro.header.get("trials", 1), asked.hits)
        job = Job(repro.source, repro.name, repro.record_id, trials)
        on_cpu = asked.device == DeviceClass.CPU
        listeners = Listeners(self.progress)
        body = run_now(job, installation.interpreter, listeners, on_cpu=on_cpu)
        try:
            evidence = store.add(body, origin=store.SITE)
        except store.EvidenceRefused as error:
            refuse(f"What ran on {build} is no evidence: {error}")
        (found,) = (
            row for row in store.findings_of(evidence) if row.check_name == "trigger"
        )
        return found

    def progress(self, phase: str, text: str) -> None:
        self.stderr.write(f"  {phase} · {text}")
        self.stderr.flush()


def refuse(text: str) -> NoReturn:
    raise CommandError(text, returncode=USAGE)


def known_of(options: dict[str, Any]) -> Asked:
    """What findings say of the repro that is asked for."""
    record, name = options["record"].upper(), options["repro"]
    repro = Repro.objects.filter(record=record, name=name).first()
    if repro is None:
        refuse(f"There is no repro {name} of a record {record}.")
    if repro.is_model:
        refuse(f"{record} {name} is a model of the mechanism: it judges no build.")
    device = options["device"] or repro.device
    rows = Finding.objects.standing().triggers().filter(record=record, repro=name)
    known = {row.build: row for row in rows.filter(device_class=device)}
    raw = dict(Build.objects.values_list("slug", "raw"))
    raw |= {row.build: row.build_raw for row in known.values()}
    return Asked(repro, device, raw, known, options["again"])


def span(asked: Asked, good: str, bad: str) -> tuple[list[str], str]:
    """The builds from the older to the newer end, and what the older one is."""
    order = asked.candidates()
    ends = {
        GOOD: places(order, asked.raw, good),
        bisect.BAD: places(order, asked.raw, bad),
    }
    first = min(ends, key=lambda name: ends[name][0])
    last = max(ends, key=lambda name: ends[name][-1])
    low, high = ends[first][0], ends[last][-1]
    if first == last or low == high:
        refuse("Name two ends: one that is good and another that is bad.")
    return order[low : high + 1], first


def places(order: list[str], raw: dict[str, str], text: str) -> list[int]:
    """Where the build, or the builds of the release, stand in this order."""
    side = sides.find(text)
    name = side.name if side else text
    found = [
        at
        for at, slug in enumerate(order)
        if name in (slug, raw[slug], raw[slug].partition("+")[0])
    ]
    if not found:
        refuse(
            f"{text}: neither a result of this repro nor an installation here. "
            f"There are: {', '.join(order) or 'none'}."
        )
    return found


def conclusion(turn: Turn, first: str, steps: list[Step]) -> list[str]:
    ends = ("last good", "first bad") if first == GOOD else ("last bad", "first good")
    lines = [f"{ends[0]} {turn.before}, {ends[1]} {turn.after}"]
    for step in steps[:2]:
        if step.answer == UNKNOWN and step.build in (turn.before, turn.after):
            lines.append(f"{step.build} has no verdict: that it is so, you said")
    if turn.unknown:
        lines.append(f"between them without an answer: {', '.join(turn.unknown)}")
    ran = sum(step.how == "run" for step in steps)
    between = len(steps) - 2
    return [*lines, f"builds asked between the ends: {between}; run now: {ran}"]


def document(turn: Turn, first: str, steps: list[Step]) -> dict[str, Any]:
    return {
        "kind": "first_bad" if first == GOOD else "first_good",
        "before": turn.before,
        "after": turn.after,
        "unknown": turn.unknown,
        "steps": [step.__dict__ for step in steps],
    }
