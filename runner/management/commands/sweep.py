"""`manage.py sweep`: where a bug happens, over values of one or two parameters."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from django.core.management.base import BaseCommand

from runner import exits, harness
from runner.management.commands.run_repro import (
    DEFAULT_REPRO,
    Usage,
    chosen_interpreter,
    reviewed,
)
from runner.sweeps import axes as sweep_axes, exchange
from runner.sweeps.boundary import boundary_of
from runner.wording import boundaries, verdicts
from runner.worker.execution import Job, Listeners
from runner.worker.sweeping import Unmet, run_here


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Run a repro over values of one or two of its parameters, and say where the "
        "bug happens. Exit: 0 in no cell, 1 in one, 125 N/A, 2 else."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("record", metavar="ID", help="e.g. NAN-0041")
        parser.add_argument(
            "axes",
            nargs="+",
            metavar="NAME=VALUES",
            help="dtype=float32,bfloat16; dtype=* (all choices); length=64:1024:64; "
            "length=1:1024:x2; scale=0.01..1 (looks for the boundary)",
        )
        parser.add_argument("--repro", default=DEFAULT_REPRO, help="name in the record")
        parser.add_argument(
            "--build", metavar="SLUG", help="default: the default build"
        )
        parser.add_argument(
            "--json", action="store_true", help="print the evidence, nothing else"
        )

    def run_from_argv(self, argv: list[str]) -> None:
        exits.crash_with_two()
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> NoReturn:
        try:
            body = self.swept(options)
        except Unmet as unmet:
            self.stderr.write(f"sweep: {unmet}")
            sys.exit(harness.EXIT_CODES[unmet.verdict])
        except KeyboardInterrupt:
            self.stderr.write("sweep: interrupted")
            sys.exit(harness.EXIT_CODES["error"])
        except (
            Usage,
            harness.ContractError,
            sweep_axes.TooMany,
            sweep_axes.NoAxes,
        ) as error:
            for problem in getattr(error, "errors", [str(error)]):
                self.stderr.write(f"sweep: {problem}")
            sys.exit(harness.EXIT_CODES["error"])
        boundary = boundary_of(harness.decode(body["cells"]))
        if options["json"]:
            self.stdout.write(harness.dumps(body, 1))
        else:
            for lang in ("en", "zh"):
                self.stdout.write(boundaries.sentence(boundary, lang))
            self.stdout.write(body["digest"])
        absent = "bug_absent" if boundary.judged else "error"
        sys.exit(harness.EXIT_CODES["bug_present" if boundary.bug else absent])

    def swept(self, options: dict[str, Any]) -> dict[str, Any]:
        """The evidence of the whole sweep."""
        repro = reviewed(options["record"].upper(), options["repro"])
        header = harness.parse_header(repro.source)
        if header.device != "cpu":
            raise Usage("Sweeps run on the CPU, and this repro needs a GPU.")
        parts = (item.partition("=") for item in options["axes"])
        texts = {name.strip(): text for name, _, text in parts}
        axes = sweep_axes.read_axes(header, texts)
        interpreter = chosen_interpreter(options["build"], repro.source)
        job = Job(repro.source, repro.name, repro.record_id)
        started_at = harness.utc_now()
        same, cells = run_here(
            job, interpreter, axes, Listeners(lambda phase, text: None), self.progress
        )
        return exchange.sealed(
            same,
            record=repro.record_id,
            axes=axes,
            cells=cells,
            started_at=started_at,
        )

    def progress(self, cell: dict[str, Any]) -> None:
        values = " ".join(
            f"{name}={harness.shown_value(value)}"
            for name, value in harness.decode(cell["at"]).items()
        )
        badge = verdicts.badge(
            cell["verdict"],
            cell["hits"] or 0,
            cell["trials"],
            "",
            "en",
            cell["reason"] or "",
        )
        self.stderr.write(f"{values} · {badge}")
        self.stderr.flush()
