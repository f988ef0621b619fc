"""`manage.py dump_records`: write records from the database as canonical files."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _, ngettext

from kb.publishing.loading import DumpReport, dump_records
from kb.terminal import in_terminal_language


class Command(BaseCommand):
    help = "Write records as canonical files; evidence beside them is left alone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "ids", nargs="*", metavar="ID", help="records, such as NAN-0007 (all)"
        )
        parser.add_argument(
            "--to",
            type=Path,
            default=settings.ISSUES_DIR,
            metavar="FOLDER",
            help="where the record folders go (default: fixtures/issues)",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="overwrite folders that changed since they were loaded",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with in_terminal_language():
            self.dump(options["to"], options["ids"] or None, options["force"])

    def dump(self, root: Path, ids: list[str] | None, force: bool) -> None:
        try:
            report = dump_records(root, ids, force=force)
        except KeyError as error:
            text = _("There is no record %(id)s.") % {"id": error.args[0]}
            raise CommandError(text) from error
        except OSError as error:
            text = _("Cannot write there: %(reason)s") % {"reason": error}
            raise CommandError(text) from error
        if report.conflicts:
            raise CommandError(conflict_text(report))
        word = _("written")  # not below: xgettext reads no f-strings
        for pk in report.written:
            self.stdout.write(f"{pk}  {word}")
        for pk in report.unchanged:
            self.stdout.write(f"{pk}  {_('unchanged')}")
        total = len(report.written)
        self.stdout.write(
            ngettext("%(n)d record written.", "%(n)d records written.", total)
            % {"n": total}
        )


def conflict_text(report: DumpReport) -> str:
    lines = [
        _("%(id)s: its folder changed since it was loaded") % {"id": pk}
        for pk in report.conflicts
    ]
    advice = _(
        "Nothing was written. Load the folders first (load_records), "
        "or overwrite them with --force."
    )
    return "\n".join([*lines, advice])
