"""`manage.py load_records`: load record folders into the database, all or none."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _, ngettext

from kb.languages import in_terminal_language
from kb.models import Record
from kb.progress import Tell
from kb.publishing.loading import Change, LoadReport, load_records
from kb.publishing.tables import require_tables
from kb.records.files import RecordError
from kb.records.places import located
from runner.authoring.command_options import add_root
from runner.evidence.repros import inspect
from runner.evidence.store import refresh_staleness


class Command(BaseCommand):
    help = "Load the record folders: all of them, or none if anything is wrong."
    # Given by `load_all` only: who hears how far it is.
    stealth_options = ("tell",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_root(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with in_terminal_language():
            report = self.load(options["root"], options.get("tell"))
            self.report(report, brief=options["verbosity"] == 0)

    def load(self, root: Path, tell: Tell | None) -> LoadReport:
        require_tables()
        try:
            return load_records(
                root,
                inspect=inspect,
                on_new_repros=take_new_repros,
                tell=tell,
            )
        except RecordError as error:
            lines = [located(root, problem) for problem in error.problems]
            raise CommandError("\n".join([*lines, _("Nothing was loaded.")])) from error

    def report(self, report: LoadReport, *, brief: bool) -> None:
        """A line for each record, unless the sum is enough."""
        words = change_words()
        for row in report.records if not brief else ():
            self.stdout.write(f"{row.file.id}  {words[row.change]}  {row.file.slug}")
        for pk in report.without_folder:
            self.stdout.write(_("%(id)s  has no folder; kept as it is") % {"id": pk})
        total = len(report.records)
        self.stdout.write(
            ngettext("%(n)d record.", "%(n)d records.", total) % {"n": total}
        )


def take_new_repros(record: Record) -> None:
    refresh_staleness(Record.objects.get(pk=record.pk))


def change_words() -> dict[Change, str]:
    return {
        Change.CREATED: _("created"),
        Change.UPDATED: _("updated"),
        Change.UNCHANGED: _("unchanged"),
    }
