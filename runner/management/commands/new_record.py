"""`manage.py new_record`: the folder of a new record, with every place to fill in."""

from __future__ import annotations

import json
import os
import subprocess
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runner.authoring import skeleton
from runner.authoring.command_options import add_logs, add_root
from runner.builds import registry


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Make the folder of a new record: next free number and files to fill in."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="the folder's name, such as cudnn-sdpa-nan")
        add_root(parser)
        parser.add_argument(
            "--from",
            dest="reference",
            default="",
            metavar="OWNER/PROJECT#NUMBER",
            help="report that it comes from, such as pytorch/pytorch#12345; fills "
            "in source and alias, without network access",
        )
        parser.add_argument(
            "--from-capture",
            dest="capture",
            metavar="CAPTURE",
            help="capture.json of nan_probe; its call becomes the repro's trigger",
        )
        add_logs(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        root, logs = (
            options["root"],
            skeleton.logs_for(options["root"], options["logs"]),
        )
        try:
            draft = drafted(options["capture"]) if options["capture"] else None
            made = skeleton.new_skeleton(
                options["slug"], options["reference"], root, logs, draft
            )
            skeleton.write(made)
        except skeleton.Refused as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"Cannot write there: {error}") from error
        self.stdout.write(f"{made.record} {options['slug']}")
        for path in made.files:
            self.stdout.write(f"  {skeleton.shown(path)}")
        self.stdout.write(
            "\nWrite what is marked TODO or todo_… in them, then see what is missing:\n"
            f"  manage.py check_record {' '.join(self.place(options))}"
        )

    def place(self, options: dict[str, Any]) -> list[str]:
        """How check_record is told of the same folder."""
        given = [options["slug"]]
        if options["root"] != settings.ISSUES_DIR:
            given.append(str(options["root"]))
        if options["logs"]:
            given += ["--logs", str(options["logs"])]
        return given


def drafted(capture: str) -> dict[str, str]:
    """What a capture gives a record; torch reads it, which the site itself has not."""
    # The probe runs any other file: as a training script.
    if not capture.endswith(".json") and not Path(capture, "capture.json").is_file():
        raise CommandError(f"{capture} is no capture.json of nan_probe.")
    python = registry.default_interpreter()
    if python is None:
        raise CommandError(
            "No torch build is installed. Add one: manage.py builds add 2.13.0"
        )
    done = subprocess.run(
        [str(python), "-m", "nan_probe", str(Path(capture).absolute()), "--draft"],
        env=os.environ | {"PYTHONPATH": str(settings.BASE_DIR / "portable")},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise CommandError(done.stderr.strip())
    found = json.loads(done.stdout)
    waived = 'match_waived = "TODO: with what a remedy should agree, else why not"'
    return {"CODE": found["repro"], "CLASS": found["class"], "MATCH": waived}
