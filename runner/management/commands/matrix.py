"""`manage.py matrix`: run every repro on every installed build that lacks a result."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kb.models import Record
from runner.models import Build
from runner.runs import backfill, fleet
from runner.runs.backfill import Filler, Progress, Result

LOOK_SECONDS = 0.5
INTERRUPTED = 130


def window(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Queue every missing cell of records x builds, behind runs that people "
        "start, and print each result. After Ctrl-C, workers keep what is queued; "
        "the next call continues."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for name, metavar in (("record", "ID"), ("build", "SLUG")):
            text = f"only this {name}; repeatable"
            add = functools.partial(parser.add_argument, f"--{name}", action="append")
            add(default=[], metavar=metavar, help=text)
        parser.add_argument(
            "--again", action="store_true", help="also repeat cells with a fresh result"
        )
        parser.add_argument(
            "--no-wait", action="store_true", help="queue everything and return"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only list the missing cells"
        )
        parser.add_argument(
            "--window",
            type=window,
            default=backfill.WINDOW,
            help=f"runs queued at a time (default: {backfill.WINDOW})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        named = {*options["record"], *options["build"]}
        named -= {*Record.objects.visible().values_list("id", flat=True)}
        named -= {*Build.objects.runnable().values_list("slug", flat=True)}
        if named:
            text = "No record, and no build that is installed here, is called "
            raise CommandError(text + ", ".join(sorted(named)), returncode=2)
        cells = backfill.cells(
            options["record"], options["build"], again=options["again"]
        )
        self.say(f"Missing cells: {len(cells)}.")
        if options["dry_run"]:
            for cell in cells:
                self.say(str(cell))
            return
        size = len(cells) if options["no_wait"] else options["window"]
        filler = Filler(cells, again=options["again"], window=max(1, size))
        progress = Progress(len(cells))
        try:
            self.fill(filler, progress, wait=not options["no_wait"])
        except KeyboardInterrupt:
            self.say(
                f"Interrupted: {len(filler.active)} runs stay queued, "
                f"{len(filler.left)} cells were not asked for. Call it again to go on."
            )
            sys.exit(INTERRUPTED)
        counts = ", ".join(f"{n} {word}" for word, n in sorted(progress.counts.items()))
        self.say(f"Done: {counts or 'nothing'}; {len(filler.active)} queued.")

    def fill(self, filler: Filler, progress: Progress, *, wait: bool) -> None:
        began = time.monotonic()
        alone = False
        while not filler.is_over:
            for result in filler.step():
                self.tell(result, progress, time.monotonic() - began)
            if not wait:
                return
            if not alone and filler.active and not fleet.online_workers().exists():
                alone = True
                self.say("No worker is online: the runs wait for one.")
            if filler.active:
                time.sleep(LOOK_SECONDS)

    def tell(self, result: Result, progress: Progress, spent_s: float) -> None:
        word = word_of(result)
        progress.note(word)
        left = progress.total - progress.done
        rest = spent_s / progress.done * left
        tail = f", about {rest:.0f} s left" if left and not result.known else ""
        why = reason_of(result)
        place = f"[{progress.done}/{progress.total}]"
        self.say(f"{place} {result.cell}: {word}{why}{tail}")

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def word_of(result: Result) -> str:
    if result.run is None:
        return "skipped"
    return result.run.verdict or result.run.state


def reason_of(result: Result) -> str:
    if result.refused:
        return f" ({result.refused.detail('en')})"
    reason = result.run.reason if result.run else ""
    return f" ({reason})" if reason else ""
