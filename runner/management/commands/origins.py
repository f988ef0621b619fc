"""`manage.py origins`: who sent evidence; withdraw it, restore it, confirm it."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from runner.evidence import origins
from runner.models import Evidence

MIN_DIGITS = 12


class Command(BaseCommand):
    help = "List who sent evidence, withdraw all that one of them sent, or confirm one."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        commands.add_parser("list", help="names, and how much each sent")
        away = commands.add_parser(
            "withdraw", help="take all that it sent out of every verdict, at once"
        )
        away.add_argument("name")
        back = commands.add_parser("restore", help="undo withdraw")
        back.add_argument("name")
        confirm = commands.add_parser("confirm", help="bear out one evidence")
        confirm.add_argument("digest", help="as its page has it, 12 digits at least")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(**options)

    def list(self, **_options: Any) -> None:
        for sender in origins.listed():
            counts = f"{sender.evidence} evidence, {sender.withdrawn} withdrawn"
            by = [f"{count} signed with {key}" for key, count in sender.signed.items()]
            self.stdout.write(f"{sender.name}  {', '.join([counts, *by])}")

    def withdraw(self, name: str, **_options: Any) -> None:
        self.require(name)
        count = origins.withdraw(name)
        self.stdout.write(f"{name}: {count} evidence withdrawn.")
        self.stdout.write(f"It may still send: manage.py tokens revoke {name}")

    def restore(self, name: str, **_options: Any) -> None:
        self.require(name)
        self.stdout.write(f"{name}: {origins.restore(name)} evidence restored.")

    def require(self, name: str) -> None:
        if name not in {sender.name for sender in origins.listed()}:
            raise CommandError(f"{name} sent nothing: manage.py origins list")

    def confirm(self, digest: str, **_options: Any) -> None:
        start = "sha256:" + digest.removeprefix("sha256:")
        rows = Evidence.objects.filter(pk__startswith=start)
        if len(start) < len("sha256:") + MIN_DIGITS or rows.count() != 1:
            raise CommandError(f"There is no one evidence {digest}.")
        if not origins.confirm(rows):
            raise CommandError(f"{digest} was not sent: it stands by itself.")
        self.stdout.write(f"{digest} is confirmed.")
