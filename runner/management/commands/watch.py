"""`manage.py watch`: find, install and run releases of torch that are new."""

from __future__ import annotations

import argparse
import re
import sys
import time
from datetime import timedelta
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from runner.builds.probe import BuildError
from runner.management.commands.matrix import INTERRUPTED
from runner.releases.alone import alone
from runner.releases.watcher import Watcher

UNITS = {"m": "minutes", "h": "hours", "d": "days"}
LEAST = timedelta(minutes=10)


def span(text: str) -> timedelta:
    """A duration such as 30m, 6h or 1d."""
    match = re.fullmatch(r"(\d{1,4})([mhd])", text)
    found = timedelta(**{UNITS[match[2]]: int(match[1])}) if match else timedelta()
    if found < LEAST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a duration of 10m or more, such as 6h or 1d"
        )
    return found


def count(text: str) -> int:
    if not text.isdigit() or int(text) > 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1000")
    return int(text)


def address(text: str) -> str:
    if not re.match(r"(?:https?|file)://", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the address of an index")
    return text


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Ask the package indexes for releases of torch that this site does not know, "
        "install each, run every record on it behind all clicks, and keep what turned. "
        "May be interrupted anywhere; the next call goes on from there."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        how_often = parser.add_mutually_exclusive_group()
        how_often.add_argument("--once", action="store_true", help="look once and end")
        how_often.add_argument(
            "--every",
            type=span,
            default=timedelta(hours=6),
            metavar="6h",
            help="pause between two looks (default: 6h)",
        )
        parser.add_argument(
            "--keep",
            type=count,
            default=1,
            metavar="N",
            help="of what it installed, the N newest stay (default: 1)",
        )
        parser.add_argument(
            "--index",
            type=address,
            metavar="URL",
            help="ask this index in place of pip's, such as one of nightlies",
        )
        parser.add_argument(
            "--pre", action="store_true", help="also the newest pre-release"
        )
        parser.add_argument(
            "--record", action="append", default=[], metavar="ID", help="run only this"
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="say what is new and its size; install and write down nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        watcher = Watcher(
            say=self.say,
            fill=lambda slug: self.fill(slug, options["record"]),
            index=options["index"] or "",
            pre=options["pre"],
            keep=options["keep"],
        )
        try:
            if options["dry_run"]:
                watcher.price_list()
            else:
                self.watch(watcher, options)
        except BuildError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.say("Interrupted: the next call goes on from here.")
            sys.exit(INTERRUPTED)

    def watch(self, watcher: Watcher, options: dict[str, Any]) -> None:
        if options["once"]:
            with alone():
                watcher.look()
            return
        while True:
            try:
                with alone():
                    watcher.look()
            except BuildError as error:
                self.say(f"Not this time: {error}")
            # Hours with an idle connection are more than many a server allows.
            connection.close()
            time.sleep(options["every"].total_seconds())

    def fill(self, slug: str, records: list[str]) -> None:
        """As `matrix` does it, which waits for what it queued."""
        call_command("matrix", build=[slug], record=records, stdout=self.stdout)

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
