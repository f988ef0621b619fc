"""`manage.py load_evidence`: take in the evidence files that travel with records."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from runner.evidence import load_evidence


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Load evidence/*.json of every record folder; run load_records first."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "root", nargs="?", type=Path, default=settings.ISSUES_DIR, metavar="FOLDER"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        report = load_evidence(options["root"])
        for name, reason in report.refused:
            self.stderr.write(f"{name}: {reason}")
        self.stdout.write(
            f"Evidence: {len(report.added)} added, {len(report.known)} known, "
            f"{len(report.refused)} refused."
        )
        if report.refused:
            sys.exit(1)
