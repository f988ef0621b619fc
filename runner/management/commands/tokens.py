"""`manage.py tokens`: API tokens."""

import argparse
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from kb.findings.results import timestamp
from runner.models.token import Token

DEFAULT_DAYS = 90


class Command(BaseCommand):
    help = "Make, list or revoke tokens of the API."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = commands.add_parser("add", help="make a token; its secret is shown once")
        add.add_argument("name", help="lower case; evidence shows it as its origin")
        add.add_argument("--user", required=True, help="user for whom the token acts")
        add.add_argument(
            "--scope",
            action="append",
            required=True,
            choices=Token.Scope.values,
            help="what the token may do; repeatable",
        )
        add.add_argument(
            "--days",
            type=int,
            default=DEFAULT_DAYS,
            help="valid for (default: %(default)s)",
        )
        commands.add_parser("list", help="names, scopes and dates, never secrets")
        revoke = commands.add_parser("revoke", help="end a token at once")
        revoke.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(**options)

    def add(
        self, name: str, user: str, scope: list[str], days: int, **_options: Any
    ) -> None:
        owner = User.objects.filter(username=user).first()
        if owner is None:
            raise CommandError(f"There is no user {user}: make one in the admin.")
        if not 1 <= days <= 3650:
            raise CommandError("--days takes 1 to 3650.")
        end = timezone.now() + timedelta(days=days)
        try:
            _token, secret = Token.issue(name, owner, scope, end)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        self.stdout.write(secret)
        self.stderr.write(f"Keep it now: it is not shown again. Ends {timestamp(end)}.")

    def list(self, **_options: Any) -> None:
        for token in Token.objects.select_related("user"):
            used = token.last_used_at
            self.stdout.write(
                f"{token.name}  {token.start}…  {token.user}  "
                f"{','.join(token.scopes) or '-'}  ends {timestamp(token.expires_at)}  "
                f"used {timestamp(used) if used else 'never'}"
            )

    def revoke(self, name: str, **_options: Any) -> None:
        deleted, _by_model = Token.objects.filter(name=name).delete()
        if not deleted:
            raise CommandError(f"There is no token {name}: manage.py tokens list")
        self.stdout.write(f"{name} is revoked.")
