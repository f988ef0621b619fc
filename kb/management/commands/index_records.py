"""The search index from the records again, or only compared with them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils.translation import gettext as _, ngettext

from kb.search.index import writer
from kb.terminal import in_terminal_language

SHOWN = 20


class Command(BaseCommand):
    help = (
        "Build the search index anew from the records. It is written with every "
        "record, so this is needed only after rows were changed behind Django's back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="change nothing; exit 1 where the index and the records differ",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with in_terminal_language():
            if options["check"]:
                self.check_index()
            else:
                self.rebuild()

    def rebuild(self) -> None:
        total = writer.rebuild()
        self.stdout.write(
            ngettext("%(n)d record indexed.", "%(n)d records indexed.", total)
            % {"n": total}
        )

    def check_index(self) -> None:
        # In one transaction, so that a record saved meanwhile is no difference.
        with transaction.atomic():
            problems = list(writer.problems())
        if not problems:
            self.stdout.write(_("The index holds what the records do."))
            return
        more = len(problems) - SHOWN
        lines = problems[:SHOWN] + ([f"… {more} more"] if more > 0 else [])
        advice = _("Build it anew: manage.py index_records")
        raise CommandError("\n".join([*lines, advice]))
