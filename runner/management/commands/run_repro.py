"""`manage.py run_repro`: run a repro here and now, without broker or server."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import OperationalError, ProgrammingError

from kb import badges
from kb.choices import Outcome
from kb.models import Record, Repro
from portable import harness
from runner import exits, run_sentences, sandbox
from runner.builds import registry
from runner.evidence.findings import diagnosed
from runner.models import Installation
from runner.worker.execution import Job, Listeners, pool, run_now

DEFAULT_REPRO = "repro"
_NO_DIAGNOSIS = "must be true in each trigger and false in the control"


class Usage(Exception):
    """Something on the command line does not exist; the text says what does."""


def trials(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100")
    return int(text)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Run a repro and judge it. Exit: 0 no bug seen, 1 bug, 125 N/A, 2 no result."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("record", nargs="?", metavar="ID", help="e.g. NAN-0002")
        what.add_argument(
            "--file", type=Path, help="a repro file that belongs to no record"
        )
        parser.add_argument("--repro", default=DEFAULT_REPRO, help="name in the record")
        parser.add_argument(
            "--build", metavar="SLUG", help="default: the default build"
        )
        parser.add_argument(
            "--trials", type=trials, metavar="N", help="how often the trigger runs"
        )
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="another value of a parameter, e.g. length=704; repeatable",
        )
        parser.add_argument(
            "--json",
            action="store_true",
            help="print only the evidence, as one line of JSON",
        )

    def run_from_argv(self, argv: list[str]) -> None:
        exits.crash_with_two()
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> NoReturn:
        try:
            job = chosen_job(options)
            interpreter = chosen_interpreter(options["build"], job.source)
            with pool():
                evidence = run_now(job, interpreter, Listeners(self.progress))
        except (Usage, harness.ContractError) as error:
            for problem in getattr(error, "errors", [str(error)]):
                self.stderr.write(f"run_repro: {problem}")
            sys.exit(harness.EXIT_CODES["error"])
        except KeyboardInterrupt:
            self.stderr.write("run_repro: interrupted")
            sys.exit(harness.EXIT_CODES["error"])
        if options["json"]:
            self.stdout.write(harness.dumps(evidence))
        else:
            self.summarise(evidence)
        sys.exit(harness.EXIT_CODES[evidence["verdict"]])

    def progress(self, phase: str, text: str) -> None:
        self.stderr.write(f"{phase} · {text}")
        self.stderr.flush()

    def summarise(self, evidence: dict[str, Any]) -> None:
        fidelity = evidence["repro"]["fidelity"]
        for lang, sentence in run_sentences.evidence_sentence(evidence).items():
            badge = badges.of_result(evidence, fidelity, lang)
            self.stdout.write(f"{badge}\n  {sentence}")
        for name, status in evidence["workarounds"].items():
            shape, words = badges.workaround(status, "en")
            if changed := changed_by(evidence, name):
                shape, words = "✖", f"Workaround: {changed}"
            self.stdout.write(f"{shape} {words}: {name}")
        for name, outcome in diagnosed(evidence):
            if outcome != Outcome.CLEAN:
                self.stdout.write(f"✖ {name}: {_NO_DIAGNOSIS}")
        for name, outcome in evidence["refuted"].items():
            self.stdout.write(
                f"· refuted_{name}: {badges.outcome(name, outcome, 'en')}"
            )
        self.stdout.write(evidence["digest"])


def changed_by(evidence: dict[str, Any], name: str) -> str:
    """How a workaround without the bug has another result than the control."""
    reasons = [
        row["reason"] or ""
        for row in evidence["checks"]
        if row["name"] == f"workaround_{name}"
    ]
    found = next((reason for reason in reasons if reason.startswith("changed")), "")
    return badges.reason_text(found, "en")


def chosen_job(options: dict[str, Any]) -> Job:
    if options["file"]:
        job = job_of_file(options["file"], options["trials"])
    else:
        repro = reviewed(options["record"].upper(), options["repro"])
        job = Job(repro.source, repro.name, repro.record_id, options["trials"])
    header = harness.parse_header(job.source)
    values = harness.read_settings(header, options["set"])
    return dataclasses.replace(job, parameters=values)


def reviewed(record_id: str, name: str) -> Repro:
    try:
        record = Record.objects.filter(pk=record_id).first()
        names = list(
            Repro.objects.filter(record=record_id).values_list("name", flat=True)
        )
    except (OperationalError, ProgrammingError) as error:
        raise Usage(
            "The database has no records yet. Run: manage.py migrate, then "
            "manage.py load_records"
        ) from error
    if record is None:
        raise Usage(f"There is no record {record_id}. Ids look like NAN-0007.")
    if name not in names:
        has = ", ".join(names) or "none"
        raise Usage(f"{record_id} has no repro {name}. It has: {has}.")
    return Repro.objects.get(record=record, name=name)


def job_of_file(path: Path, count: int | None) -> Job:
    try:
        source = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"{path} cannot be read: {error}") from error
    harness.read_repro(source)
    required, here = settings.SANDBOX_MIN_TIER, sandbox.tier()
    if not (is_reviewed(source) or sandbox.reaches(required)):
        raise Usage(
            f"{path} is not a reviewed repro, and such files need sandbox tier "
            f"{required}; this machine has tier {here.tier}: {here.reason_en} "
            f"{here.remedy_en} If you trust the file, set SANDBOX_MIN_TIER={here.tier}."
        )
    return Job(source, path.stem, None, count)


def is_reviewed(source: str) -> bool:
    try:
        return Repro.objects.filter(digest=harness.source_digest(source)).exists()
    except (OperationalError, ProgrammingError):
        return False


def chosen_interpreter(slug: str | None, source: str) -> str:
    """The Python of a build; the default build needs no database row."""
    stack = harness.read_repro(source)[0].stack
    try:
        installation = (
            registry.installation_for(slug, stack)
            if slug
            else registry.default_installation(stack)
        )
        slugs = sorted(
            set(Installation.objects.values_list("build", flat=True)) - {None}
        )
    except (OperationalError, ProgrammingError):
        installation, slugs = None, []
    if installation:
        return installation.interpreter
    default = registry.default_interpreter()
    if default and slug in (None, default.parent.parent.name):
        return str(default)
    if slug is None:
        raise Usage("No torch build is installed. Add one: manage.py builds add 2.13.0")
    raise Usage(
        f"There is no build {slug} on this machine. "
        f"It has: {', '.join(slugs) or 'none'}."
    )
