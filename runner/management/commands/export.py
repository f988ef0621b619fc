"""`manage.py export`: the static files of a mirror, and the data as a package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from kb.publishing.tables import require_tables
from runner.takeaway import mirror


class Command(BaseCommand):
    help = (
        "Write OSV, strips and the data package of this site into a folder "
        "that any web host can serve. SITE_URL is where the records' pages are."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder",
            nargs="?",
            type=Path,
            default=Path("dist/mirror"),
            metavar="DIR",
            help="replaced as a whole (default: dist/mirror)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.SITE_URL:
            raise CommandError("Set SITE_URL: links to records' pages start with it.")
        folder: Path = options["folder"].absolute()
        require_tables()
        try:
            count = mirror.write(folder)
        except mirror.MirrorError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{folder}: {count} files.")
