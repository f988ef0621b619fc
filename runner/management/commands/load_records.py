"""`manage.py load_records`: load record folders into the database, all or none."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _, ngettext

from kb.models import Record
from kb.publishing.loading import Change, LoadReport, load_records
from kb.records.files import RecordError
from kb.terminal import in_terminal_language
from runner.evidence.repros import inspect
from runner.evidence.store import refresh_staleness


class Command(BaseCommand):
    help = "Load the record folders: all of them, or none if anything is wrong."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "root",
            nargs="?",
            type=Path,
            default=settings.ISSUES_DIR,
            help="folder of record folders (default: fixtures/issues)",
        )
        parser.add_argument(
            "--force",
            choices=["files", "site"],
            help="whose changes win where files and site both changed",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with in_terminal_language():
            self.load(options["root"], options["force"])

    def load(self, root: Path, force: Any) -> None:
        try:
            report = load_records(
                root, inspect=inspect, force=force, on_new_repros=take_new_repros
            )
        except RecordError as error:
            nothing = _("Nothing was loaded.")
            raise CommandError(f"{error}\n{nothing}") from error
        if not report.done:
            raise CommandError(conflict_text(report))
        self.report(report)

    def report(self, report: LoadReport) -> None:
        words = change_words()
        for row in report.records:
            self.stdout.write(f"{row.id}  {words[row.change]}  {row.slug}")
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
        Change.KEPT_SITE: _("edited on the site; the site's text is kept"),
    }


def conflict_text(report: LoadReport) -> str:
    lines = [
        _("%(id)s: both its files and the site's text changed") % {"id": row.id}
        for row in report.conflicts
    ]
    advice = _(
        "Nothing was loaded. Choose whose text wins in these records: "
        "load_records --force files, or load_records --force site."
    )
    return "\n".join([*lines, advice])
