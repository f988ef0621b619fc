"""`manage.py load_all`: records and evidence, with their progress on the pages.

`manage.py up` runs it behind the site. It may be killed at any moment: each record is a
transaction, and each folder of evidence is; the next call goes on from there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from kb import progress
from kb.progress import Tell, Work

# Seconds between two lines in the terminal.
PAUSE_S = 3.0
COMMANDS = {Work.RECORDS: "load_records", Work.EVIDENCE: "load_evidence"}


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Load what is new in the records and evidence of this checkout."

    def handle(self, *args: Any, **options: Any) -> None:
        self.failed = False
        for work, command in COMMANDS.items():
            with progress.of(work) as tell, self.tolerating(command):
                call_command(
                    command,
                    stdout=self.stdout,
                    stderr=self.stderr,
                    verbosity=0,
                    tell=self.spoken(work, tell),
                )
            self.stdout.flush()
        if self.failed:
            sys.exit(1)

    def spoken(self, work: Work, tell: Tell) -> Tell:
        """Tells the pages each time, the terminal now and then."""
        said_at = time.monotonic()

        def both(done: int, total: int, name: str) -> None:
            nonlocal said_at
            tell(done, total, name)
            if time.monotonic() - said_at >= PAUSE_S:
                said_at = time.monotonic()
                self.stdout.write(f"Loading {work}: {done} of {total}")
                self.stdout.flush()

        return both

    @contextmanager
    def tolerating(self, command: str) -> Iterator[None]:
        """Report a command that fails and go on: the site shows what it has."""
        try:
            yield
        except (CommandError, SystemExit) as error:
            self.failed = True
            if str(error) not in {"", "1"}:
                self.stderr.write(str(error))
            self.stderr.write(f"{command} failed: the site goes on with what it has.")
