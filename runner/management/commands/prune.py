"""`manage.py prune`: delete what is old; evidence stays for ever."""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from runner.runs.prune import prune


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Delete logs older than LOG_DAYS, and runs older than RUN_DAYS if a newer "
        "run of the same repro, build and device exists. Workers do this once a "
        "day."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count")

    def handle(self, *args: Any, **options: Any) -> None:
        done = prune(dry_run=options["dry_run"])
        what = "would be deleted" if options["dry_run"] else "deleted"
        self.stdout.write(
            f"{done['logs']} logs older than {settings.LOG_DAYS} days, "
            f"{done['runs']} superseded runs and {done['sweeps']} sweeps that "
            f"ended early, older than {settings.RUN_DAYS} days {what}."
        )
