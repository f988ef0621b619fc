"""`manage.py build_client`: the client of docs/clients.md as a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from kb.choices import Publication
from kb.records.files import RecordError, read_all
from runner.authoring.scratch import publish, scratch_database
from runner.takeaway import wheel


class Command(BaseCommand):
    help = "Make a wheel of the client, with the published records of this checkout."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--output",
            type=Path,
            default=Path("dist"),
            metavar="DIR",
            help="folder of the wheel (default: dist)",
        )
        parser.add_argument(
            "--site",
            default=settings.SITE_URL,
            metavar="URL",
            help="site that lookup contacts (default: SITE_URL)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        site = options["site"].rstrip("/")
        if site and not site.startswith(("https://", "http://")):
            raise CommandError("--site begins with https:// or http://")
        try:
            files = read_all(settings.ISSUES_DIR)
        except RecordError as error:
            raise CommandError(str(error)) from error
        published = Publication.PUBLISHED.value
        shown = (f for f in files if f.facts["publication"] == published)
        with scratch_database():
            publish(settings.ISSUES_DIR, shown, "")
            made = wheel.wheel(site)
        folder: Path = options["output"]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / made.name
        path.write_bytes(made.data)
        self.stdout.write(str(path))
