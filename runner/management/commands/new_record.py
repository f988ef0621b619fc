"""`manage.py new_record`: the folder of a new record, with every place to fill in."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runner.authoring import skeleton
from runner.authoring.command_options import add_logs, add_root


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Make the folder of a new record: next free number, files with open places."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="the folder's name, such as cudnn-sdpa-nan")
        add_root(parser)
        parser.add_argument(
            "--from",
            dest="reference",
            default="",
            metavar="OWNER/PROJECT#NUMBER",
            help="the report it comes from, such as pytorch/pytorch#12345; fills in "
            "source and alias, asks nobody",
        )
        add_logs(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        root, logs = (
            options["root"],
            skeleton.logs_for(options["root"], options["logs"]),
        )
        try:
            made = skeleton.new_skeleton(
                options["slug"], options["reference"], root, logs
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
