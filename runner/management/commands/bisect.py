"""`manage.py bisect`: the two neighbouring builds between which a bug comes or goes."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from kb.choices import WORKER_DEVICES, DeviceClass
from kb.models import Finding, Repro
from kb.versions.order import column_labels
from runner import exits
from runner.bisecting import search, span, subject
from runner.bisecting.search import GOOD, UNKNOWN, Standing, Turn
from runner.bisecting.span import Span
from runner.bisecting.subject import Subject
from runner.builds import index, install, registry
from runner.builds.probe import BuildError
from runner.evidence import store
from runner.evidence.findings import findings_of
from runner.worker.execution import Job, Listeners, run_now

FOUND, USAGE = 0, 2


@dataclass(frozen=True)
class Step:
    """One build that counted, and how it answered. `how`: evidence, run or nothing."""

    build: str
    answer: str
    verdict: str
    how: str
    evidence: str


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Find the two neighbouring builds between which a bug appears or goes "
        "away. Uses existing evidence first, then runs the repro on builds of this "
        "machine. With --install, missing releases are installed one at a time. "
        "Exit: 0 found, 2 not found."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("record", metavar="ID", help="e.g. NAN-0008")
        for name, has in (("--good", "without"), ("--bad", "with")):
            text = f"a release (2.4.1) or build (2.4.1-cu121) {has} the bug"
            parser.add_argument(name, required=True, metavar="BUILD", help=text)
        parser.add_argument("--repro", default="repro", help="name in the record")
        parser.add_argument("--device", choices=dict(WORKER_DEVICES))
        parser.add_argument(
            "--again", action="store_true", help="run again builds that have a result"
        )
        parser.add_argument(
            "--install",
            action="store_true",
            help="install missing releases between the ends, as needed",
        )
        parser.add_argument(
            "--remove",
            action="store_true",
            help="with --install: delete each new build after its run",
        )
        parser.add_argument(
            "--json", action="store_true", help="print the result as JSON"
        )

    def run_from_argv(self, argv: list[str]) -> None:
        exits.crash_with_two()
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["remove"] and not options["install"]:
            refuse("--remove deletes what --install installed: name both.")
        self.options = options
        try:
            self.subject = self.subject_of(options)
            order = self.subject.candidates(self.installed())
            self.span = span.between(
                self.subject, order, options["good"], options["bad"]
            )
            self.begin()
            standing = self.search()
        except span.SpanError as error:
            refuse(str(error))
        except search.Contradicted as error:
            refuse(
                f"{self.subject.slug(error.build)} is {error.answer}, not "
                f"{error.said}: choose another one for that end."
            )
        except DatabaseError as error:
            refuse(f"Nothing can be read ({error}): run migrate and load_records.")
        self.tell(standing)

    # --- what is asked --------------------------------------------------------------
    def subject_of(self, options: dict[str, Any]) -> Subject:
        record, name = options["record"].upper(), options["repro"]
        repro = Repro.objects.filter(record=record, name=name).first()
        if repro is None:
            refuse(f"There is no repro {name} of a record {record}.")
        if repro.is_model:
            refuse(f"{record} {name} is a model of the mechanism: it judges no build.")
        offered = self.offered() if options["install"] else []
        device = options["device"] or repro.device
        if repro.device == DeviceClass.CPU != device:
            refuse(f"{record} {name} runs on the CPU.")
        again = options["again"]
        return subject.subject_of(repro, device, offered=offered, again=again)

    def offered(self) -> list[str]:
        try:
            return index.releases()
        except BuildError as error:
            self.say(f"Nothing can be installed: {error}")
            return []

    def installed(self) -> set[str]:
        rows = registry.installations_here()
        return {row.build_id for row in rows if row.build_id}

    def reachable(self) -> set[str]:
        return self.installed() | set(self.subject.offered)

    def begin(self) -> None:
        repro, builds = self.subject.repro, self.span.builds
        self.say(
            f"{repro.record_id} {repro.name} on {self.subject.device}: "
            f"{len(builds)} builds from {builds[0]} to {builds[-1]}"
        )
        missing = [name for name in builds if name in self.subject.offered]
        if missing:
            folder = settings.BUILDS_DIR
            place = next(path for path in (folder, *folder.parents) if path.exists())
            free = shutil.disk_usage(place).free // install.MIB
            most = min(len(missing), search.most_questions(len(builds)) + 2)
            self.say(
                f"Not here: {', '.join(missing)}. At most {most} of them are "
                f"installed, one at a time; each says its size before. "
                f"{free} MiB are free in {settings.BUILDS_DIR}."
            )

    def search(self) -> Standing:
        while True:
            builds, first = self.span.builds, self.span.first
            answers = self.subject.answers(builds, self.reachable())
            standing = search.follow(builds, first, answers)
            if standing.ask is None:
                return standing
            self.ask(standing.ask)

    def ask(self, name: str) -> None:
        """Have an answer of this build, or a reason why there is none."""
        fresh = name in self.subject.offered and name not in self.subject.slugs
        if fresh and not self.install(name):
            return
        slug = self.subject.slug(name)
        trials = self.subject.trials
        row = self.run(slug, trials)
        self.subject.asked[slug] = trials if row else 0
        if row:
            self.subject.known[slug] = row
            self.say(f"{slug}: {row.verdict} ({row.hits}/{row.trials})")
        if fresh and self.options["remove"]:
            for line in registry.remove(slug):
                self.say(f"  {line}")

    def install(self, release: str) -> bool:
        self.say(f"torch {release} is not here")
        try:
            row = install.add_release(release, [], self.say)
        except BuildError as error:
            self.say(f"{release}: not installed, so not asked: {error}")
            self.subject.asked[release] = 0
            return False
        build = row.build
        assert build  # noqa: S101  # what was just installed is ready
        self.subject.slugs[release] = build.slug
        self.subject.raw[build.slug] = build.raw
        return True

    def run(self, build: str, trials: int) -> Finding | None:
        """Run it here, keep the evidence, and give its finding.

        None where the interpreter has another torch by now, or none that starts.
        """
        repro = self.subject.repro
        installation = registry.installation_for(build, repro.header.get("stack"))
        assert installation  # noqa: S101  # it was among `reachable`
        job = Job(repro.source, repro.name, repro.record_id, trials)
        on_cpu = self.subject.device == DeviceClass.CPU
        listeners = Listeners(lambda phase, text: self.say(f"  {phase} · {text}"))
        body = run_now(job, installation.interpreter, listeners, on_cpu=on_cpu)
        if (now := body["build"]["slug"]) != build:
            text = f"torch {now} now" if now else f"no torch: {body['reason']}"
            self.say(f"{build}: not asked: {installation.interpreter} has {text}")
            return None
        try:
            evidence = store.add(body, origin=store.SITE)
        except store.EvidenceRefused as error:
            refuse(f"What ran on {build} is no evidence: {error}")
        (found,) = (row for row in findings_of(evidence) if row.check_name == "trigger")
        return found

    # --- what is told ---------------------------------------------------------------
    def say(self, text: str) -> None:
        self.stderr.write(text)
        self.stderr.flush()

    def tell(self, standing: Standing) -> None:
        assert standing.turn  # noqa: S101  # the search is over
        turn = named_turn(self.subject, standing.turn)
        steps = self.steps(standing)
        if self.options["json"]:
            data = document(turn, self.span, steps)
            self.stdout.write(json.dumps(data, indent=1))
        else:
            lines = conclusion(self.subject, turn, self.span, steps)
            self.stdout.write("\n".join([*table(steps), *lines]))

    def steps(self, standing: Standing) -> list[Step]:
        """In the order in which they count; what was asked in vain at the end."""
        answers = self.subject.answers(self.span.builds, self.reachable())
        vain = [name for name in self.subject.asked if name not in standing.used]
        names = [*standing.used, *(name for name in vain if name in answers)]
        return [self.step(name, answers[name]) for name in dict.fromkeys(names)]

    def step(self, name: str, answer: str) -> Step:
        slug = self.subject.slug(name)
        row = self.subject.known.get(slug)
        if row is None:
            return Step(slug, answer, "", "nothing", "")
        how = "run" if self.subject.asked.get(slug) else "evidence"
        return Step(slug, answer, row.verdict, how, row.evidence)


def named_turn(known: Subject, turn: Turn) -> Turn:
    """With builds in place of the releases that were installed for it."""
    return Turn(
        known.slug(turn.before),
        known.slug(turn.after),
        unknown=[known.slug(name) for name in turn.unknown],
        instead={known.slug(end): known.slug(to) for end, to in turn.instead.items()},
    )


def refuse(text: str) -> NoReturn:
    raise CommandError(text, returncode=USAGE)


def table(steps: list[Step]) -> list[str]:
    rows = [(step.build, step.answer, step.verdict or "-", step.how) for step in steps]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def conclusion(
    subject: Subject, turn: Turn, span: Span, steps: list[Step]
) -> list[str]:
    ends = ("last without the bug", "first with it")
    if span.first != GOOD:
        ends = ("last with the bug", "first without it")
    several = {step.build: subject.raw.get(step.build, step.build) for step in steps}
    labels = column_labels(several)
    before, after = (labels.get(name, name) for name in (turn.before, turn.after))
    lines = [f"{ends[0]} {before}, {ends[1]} {after}"]
    for end, to in turn.instead.items():
        lines.append(f"{end} does not behave as stated, so {to} was used instead")
    for step in steps:
        if step.answer == UNKNOWN and step.build in (turn.before, turn.after):
            lines.append(f"{step.build} has no result here: this is your statement")
    if turn.unknown:
        lines.append(f"no result between them: {', '.join(turn.unknown)}")
    ran = sum(step.how == "run" for step in steps)
    return [*lines, f"builds used: {len(steps)}; run now: {ran}"]


def document(turn: Turn, span: Span, steps: list[Step]) -> dict[str, Any]:
    return {
        "kind": "first_bad" if span.first == GOOD else "first_good",
        **asdict(turn),
        "steps": [asdict(step) for step in steps],
    }
