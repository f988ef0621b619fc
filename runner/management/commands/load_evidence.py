"""`manage.py load_evidence`: load evidence, shipped with records or uploaded."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from kb.choices import OUR_ORIGINS
from kb.progress import Tell
from kb.publishing.tables import require_tables
from runner.evidence.exchange import ORIGIN
from runner.evidence.folders import EvidenceReport, load_evidence
from runner.evidence.keeping import keep_evidence
from runner.evidence.sent_files import receive_file
from runner.sweeps import exchange

SENT = "upload"


def origin(text: str) -> str:
    if not ORIGIN.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: up to 40 of the characters a-z 0-9 . _ -"
        )
    if text in OUR_ORIGINS:
        raise argparse.ArgumentTypeError(f"{text!r} is what this site calls its own")
    return text


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Load evidence/*.json and sweeps/*.json from every record folder, or files "
        "from users. Run load_records first."
    )

    # Given by `load_all` only: who hears how far it is.
    stealth_options = ("tell",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "paths",
            nargs="*",
            type=Path,
            metavar="FOLDER|FILE",
            help="a folder of record folders (default: fixtures/issues), or a "
            "--json file of repro.py, run_repro, sweep, doctor.py or kit.zip",
        )
        parser.add_argument(
            "--origin",
            type=origin,
            default=SENT,
            metavar="NAME",
            help=f"who sent the files; evidence shows it (default: {SENT})",
        )

        parser.add_argument(
            "--keep",
            type=origin,
            metavar="MACHINE",
            help="instead of loading, write the evidence of a kit's file into the "
            "record folders, for review and commit",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        require_tables("then manage.py load_records")
        report = EvidenceReport()
        for path in options["paths"] or [Path(settings.ISSUES_DIR)]:
            if options["keep"]:
                self.keep(path, options["keep"], report)
            else:
                self.load(path, options["origin"], report, options.get("tell"))
        for name, reason in report.refused:
            self.stderr.write(f"{name}: {reason}")
        for name, cells in report.unfinished:
            self.stderr.write(f"{name}: left out, {cells} of its cells are done.")
        self.stdout.write(
            f"Evidence: {len(report.added)} added, {len(report.known)} known, "
            f"{len(report.refused)} refused."
        )
        if report.refused:
            sys.exit(1)

    def keep(self, path: Path, machine: str, report: EvidenceReport) -> None:
        if not path.is_file():
            raise CommandError("--keep takes the evidence file of a kit.")
        root = Path(settings.ISSUES_DIR)
        keep_evidence(path, root, machine, report)
        exchange.keep_sweeps(path, root, machine, report)
        for name in report.added:
            self.stdout.write(name)

    def load(
        self, path: Path, sender: str, report: EvidenceReport, tell: Tell | None
    ) -> None:
        if path.is_dir():
            load_evidence(path, report, tell)
            exchange.load_sweeps(path, report)
        elif path.is_file():
            sweeps, nothing_else = exchange.sent_in(path)
            if not nothing_else:
                receive_file(path, sender, report)
            if sweeps:
                exchange.receive(sweeps, sender, report)
        else:
            report.refused.append((str(path), "There is no such file or folder."))
