"""`manage.py tokens`: API tokens, and the keys by which their names sign."""

import argparse
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from kb.choices import OUR_ORIGINS
from kb.findings.results import timestamp
from runner.evidence.exchange import ORIGIN
from runner.evidence.signing import keys, sshsig
from runner.models import SigningKey
from runner.models.token import Token

DEFAULT_DAYS = 90


class Command(BaseCommand):
    help = "Make, list or revoke tokens of the API, and keys that sign evidence."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = commands.add_parser("add", help="make a token; its secret is shown once")
        add.add_argument("name", help="lower case; evidence shows it as origin")
        add.add_argument("--user", required=True, help="for whom the token acts")
        add.add_argument(
            "--scope",
            action="append",
            required=True,
            choices=Token.Scope.values,
            help="what it may do; may be repeated",
        )
        add.add_argument("--days", type=int, default=DEFAULT_DAYS)
        commands.add_parser("list", help="names, scopes and dates, never secrets")
        revoke = commands.add_parser("revoke", help="end a token at once")
        revoke.add_argument("name")
        self.add_keys(commands)

    def add_keys(self, commands: Any) -> None:
        key = commands.add_parser(
            "add-key", help="from now on this name sends evidence signed with it, only"
        )
        key.add_argument("name", help="of a token, or of load_evidence --origin")
        key.add_argument("file", type=Path, help="such as id_ed25519.pub")
        gone = commands.add_parser(
            "revoke-key", help="take nothing more that is signed with it"
        )
        gone.add_argument("fingerprint", help="SHA256:…, as `tokens list` shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"].replace("-", "_"))(**options)

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
        for key in SigningKey.objects.all():
            day = key.revoked_at
            state = f"revoked {timestamp(day)}" if day else "signs"
            self.stdout.write(f"{key.name}  {key.fingerprint}  {state}")

    def revoke(self, name: str, **_options: Any) -> None:
        deleted, _by_model = Token.objects.filter(name=name).delete()
        if not deleted:
            raise CommandError(f"There is no token {name}: manage.py tokens list")
        self.stdout.write(f"{name} is revoked.")

    def add_key(self, name: str, file: Path, **_options: Any) -> None:
        if not ORIGIN.fullmatch(name) or name in OUR_ORIGINS:
            raise CommandError(f"{name!r} is no name to send under.")
        try:
            row = keys.register(name, file.read_text(encoding="utf-8"))
        except (OSError, ValueError, sshsig.NoTool) as error:
            raise CommandError(f"{file}: {error}") from error
        self.stdout.write(f"{row.fingerprint} signs for {name}.")

    def revoke_key(self, fingerprint: str, **_options: Any) -> None:
        row = keys.revoke(fingerprint)
        if row is None:
            raise CommandError(f"There is no key {fingerprint}: manage.py tokens list")
        self.stdout.write(f"{fingerprint} is revoked. What it signed before stays:")
        self.stdout.write(f"manage.py origins withdraw {row.name} takes it back.")
