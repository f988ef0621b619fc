"""`manage.py check_record`: everything that one record still lacks."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import override

from portable import harness
from runner.authoring import skeleton
from runner.authoring.command_options import add_logs, add_root
from runner.authoring.record_check import Question, check
from runner.authoring.record_runs import Bench
from runner.management.commands.run_repro import (
    Usage,
    chosen_interpreter,
    job_of_file,
)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages of a server here
    help = (
        "Check one record folder: files, repro, broken variants of the repro, "
        "signatures, search and page. Needs no database. Exit: 0 nothing is "
        "missing, 1 else."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="the record's folder, or its id")
        add_root(parser)
        parser.add_argument(
            "--build",
            metavar="SLUG",
            help="torch build to run on, preferably one with the bug (default: the "
            "default build)",
        )
        add_logs(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        root = options["root"]
        slug = folder_name(root, options["slug"])
        # The words of problems and of this command in one language.
        with override("en"):
            missing = self.report(self.question(root, slug, options))
        if missing:
            sys.exit(1)

    def question(self, root: Path, slug: str, options: dict[str, Any]) -> Question:
        build = options["build"]
        chosen = "as named" if build else "the default build of this site"
        return Question(
            root,
            slug,
            skeleton.logs_for(root, options["logs"]),
            Bench(partial(chosen_interpreter, build), chosen, self.progress),
            partial(job_of_file, count=None),
        )

    def report(self, question: Question) -> int:
        """Print each part; returns how many problems there are."""
        missing = 0
        try:
            for part in check(question):
                missing += len(part.problems)
                self.progress("", "")
                self.stdout.write("\n".join(part.lines()))
        except (Usage, harness.ContractError) as error:
            raise CommandError(str(error)) from error
        if missing:
            self.stdout.write(f"\n{missing} missing or wrong in {question.slug}.")
        else:
            self.stdout.write(f"\nNothing is missing in {question.slug}.")
        return missing

    def progress(self, phase: str, text: str) -> None:
        """One line that the next one replaces; none where nobody looks on."""
        if sys.stderr.isatty():
            line = f"{phase} · {text[:60]}" if phase else ""
            self.stderr.write(f"\r\033[K{line}", ending="")
            self.stderr.flush()


def folder_name(root: Path, named: str) -> str:
    """The folder of a slug or an id. Raises CommandError with what there is."""
    if (root / named).is_dir() and "/" not in named:
        return named
    rows = list(skeleton.neighbours(root))
    found = next((row.folder for row in rows if row.id == named.upper()), None)
    if found is None:
        raise CommandError(
            f"{root} has no record {named}. Make one: manage.py new_record {named}"
        )
    return found
