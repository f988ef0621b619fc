"""`manage.py lint PATH…`: traps of known training failures in Python source.

Reads the rules of the records of this checkout; no site, no database, no torch.
Exit status: 0 nothing was found, 1 something was, 2 wrong usage.
"""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.management.base import BaseCommand

from kb.rules import checkout, command


class Command(BaseCommand):
    help = "Look for traps of known training failures in Python source."
    requires_system_checks = []

    def print_help(self, prog_name: str, subcommand: str) -> None:
        command.parser_of(f"{prog_name} {subcommand}").print_help()

    def run_from_argv(self, argv: list[str]) -> None:
        """The arguments are those of the file that users take away."""
        rules = checkout.rules_of(str(settings.BASE_DIR / "fixtures" / "issues"))
        sys.exit(command.main(rules, argv[2:], prog="manage.py lint"))
