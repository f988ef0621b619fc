"""`manage.py kit`: one file for a machine that has a GPU and no network."""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kb.models import Repro
from kb.publishing.tables import require_tables
from runner.takeaway import sweeps, telling, wheels
from runner.takeaway.doctor import published_repros
from runner.takeaway.kit import MB, Kit, TooLarge

PYTHON = re.compile(r"3\.[0-9]{1,2}")
TORCH = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,60}")


def like(pattern: re.Pattern[str], example: str) -> Any:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise argparse.ArgumentTypeError(f"{text!r} does not look like {example}")
        return text

    return check


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Write reviewed repros, the harness and wheels of their stacks into one "
        "file. On the target machine: python kit.zip --resume evidence.json. Run "
        "load_records first."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-o",
            dest="output",
            type=Path,
            default=Path("kit.zip"),
            metavar="FILE",
            help="the file to write (default: kit.zip)",
        )
        parser.add_argument(
            "--cuda", action="store_true", help="only repros that need a GPU"
        )
        parser.add_argument(
            "--record",
            action="append",
            default=[],
            metavar="ID",
            help="only this record; repeatable",
        )
        parser.add_argument(
            "--python",
            type=like(PYTHON, "3.12"),
            metavar="3.12",
            help="Python version of the target machine; without it, no wheels are "
            "fetched",
        )
        parser.add_argument(
            "--torch",
            type=like(TORCH, "2.11.0+cu130"),
            metavar="2.11.0+cu130",
            help="torch version of the target machine, checked there",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        require_tables("then manage.py load_records")
        repros = chosen(options["record"], options["cuda"])
        with tempfile.TemporaryDirectory() as folder:
            self.write(repros, options, Path(folder))

    def write(self, repros: list[Repro], options: dict[str, Any], folder: Path) -> None:
        stacks = {repro.pk: wheels.requirements(repro.source) for repro in repros}
        wanted = [text for repro in repros for text in stacks[repro.pk]]
        found = {}
        if options["python"]:
            found = wheels.fetch(
                wanted, options["python"], folder, lambda text: self.say(f"  {text}")
            )
        elif wanted:
            self.say("  No wheels: --python says for which Python to fetch them.")
        made = Kit(
            repros,
            telling.of_repros(repros),
            wheels.by_repro(stacks, found),
            found.values(),
            {name: options[name] or "" for name in ("torch", "python")},
            sweeps.of_repros(repros),
        )
        try:
            size = made.write(options["output"])
        except (TooLarge, OSError) as error:
            raise CommandError(f"{options['output']}: {error}") from error
        self.say(
            f"{options['output']}: {len(repros)} repros, {len(found)} wheels, "
            f"{size / MB:.1f} MB. There: python {options['output'].name} "
            "--budget-s 540 --json evidence.json"
        )

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def chosen(records: list[str], cuda: bool) -> list[Repro]:
    """Published repros, those that need a GPU first: their wheels come first, too."""
    wanted = {text.upper() for text in records}
    repros = [row for row in published_repros() if row.device == "cuda" or not cuda]
    unknown = sorted(wanted - {row.record_id for row in repros})
    if unknown:
        what = "repro for a GPU" if cuda else "repro"
        raise CommandError(f"No published record has a {what}: {', '.join(unknown)}.")
    repros = [row for row in repros if not wanted or row.record_id in wanted]
    if not repros:
        raise CommandError("There are no repros here yet. Run: manage.py load_records")
    return sorted(repros, key=lambda row: row.device != "cuda")
