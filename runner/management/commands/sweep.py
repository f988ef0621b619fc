"""`manage.py sweep`: where a bug happens, over values of one or two parameters."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from django.core.management.base import BaseCommand

from kb import badges
from kb.choices import LANGS, DeviceClass
from kb.models import Repro
from portable import harness
from runner import exits
from runner.management.commands.run_repro import (
    DEFAULT_REPRO,
    Usage,
    chosen_interpreter,
    reviewed,
)
from runner.sweeps import axes as sweep_axes, sentences
from runner.sweeps.boundary import boundary_of
from runner.sweeps.cells import Axis, sealed
from runner.worker.execution import Job, Listeners
from runner.worker.sweeping import Unmet, run_here

REFUSALS = (Usage, harness.ContractError, sweep_axes.BadAxes)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = (
        "Run a repro over values of one or two parameters and report where the bug "
        "happens. Exit: 0 no bug seen, 1 bug in a cell, 125 N/A, 2 no result."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("record", metavar="ID", help="e.g. NAN-0028")
        parser.add_argument(
            "axes",
            nargs="*",
            metavar="NAME=VALUES",
            help="dtype=float32,bfloat16; dtype=* (all choices); length=64:1024:64; "
            "length=1:1024:x2; scale=0.01..1 (looks for the boundary)",
        )
        parser.add_argument("--repro", default=DEFAULT_REPRO, help="name in the record")
        parser.add_argument(
            "--build", metavar="SLUG", help="default: the default build"
        )
        parser.add_argument(
            "--json", action="store_true", help="print only the evidence, as JSON"
        )

    def run_from_argv(self, argv: list[str]) -> None:
        exits.crash_with_two()
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> NoReturn:
        try:
            cells = self.cells(options)
        except Unmet as unmet:
            self.stderr.write(f"sweep: {unmet}")
            sys.exit(harness.EXIT_CODES[unmet.verdict])
        except KeyboardInterrupt:
            self.stderr.write("sweep: interrupted")
            sys.exit(harness.EXIT_CODES["error"])
        except REFUSALS as error:
            for problem in getattr(error, "errors", [str(error)]):
                self.stderr.write(f"sweep: {problem}")
            sys.exit(harness.EXIT_CODES["error"])
        boundary = boundary_of(harness.decode(cells))
        if not options["json"]:
            for lang in LANGS:
                self.stdout.write(sentences.sentence(boundary, lang))
        absent = "bug_absent" if boundary.judged else "error"
        sys.exit(harness.EXIT_CODES["bug_present" if boundary.bug else absent])

    def cells(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """All cells; prints the evidence."""
        repro = reviewed(options["record"].upper(), options["repro"])
        header = harness.parse_header(repro.source)
        if header.device != DeviceClass.CPU:
            raise Usage("Sweeps run on the CPU, and this repro needs a GPU.")
        parts = (item.partition("=") for item in options["axes"])
        texts = {name.strip(): text for name, _, text in parts}
        axes = sweep_axes.read_axes(header, texts)
        body = self.swept(repro, axes, options["build"])
        text = harness.dumps(body, 1) if options["json"] else body["digest"]
        self.stdout.write(text)
        return list(body["cells"])

    def swept(
        self, repro: Repro, axes: dict[str, Axis], slug: str | None
    ) -> dict[str, Any]:
        """The evidence of a sweep that is executed here and now."""
        interpreter = chosen_interpreter(slug, repro.source)
        job = Job(repro.source, repro.name, repro.record_id)
        started_at = harness.utc_now()
        same, cells = run_here(
            job, interpreter, axes, Listeners(lambda phase, text: None), self.say
        )
        return sealed(
            same,
            record=repro.record_id,
            axes=axes,
            cells=cells,
            started_at=started_at,
        )

    def say(self, cell: dict[str, Any]) -> None:
        values = harness.shown_settings(harness.decode(cell["at"]))
        badge = badges.of_result(cell, "", "en")
        self.stderr.write(f"{values} · {badge}")
        self.stderr.flush()
