"""`manage.py webhooks`: who is told of flips by a signed POST."""

from __future__ import annotations

import argparse
import uuid
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from kb.findings.results import timestamp
from kb.models import Delivery, Record, Subscription, Webhook
from kb.telling import changes, posting, reach, signing
from kb.telling.reach import Unreachable

Kind = Subscription.Kind
SHOWN = 5


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Add, list, test or remove addresses that are told of flips."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = commands.add_parser("add", help="its secret is shown once")
        add.add_argument("name", help="letters, digits, - and _")
        add.add_argument("address", help="https://…")
        what = "may be repeated; without any, it hears of everything"
        add.add_argument(
            "--record", action="append", default=[], metavar="ID", help=what
        )
        add.add_argument(
            "--component", action="append", default=[], metavar="NAME", help=what
        )
        commands.add_parser("list", help="what each listens to, and how it went")
        test = commands.add_parser("test", help="send a message of type test now")
        test.add_argument("name")
        remove = commands.add_parser("remove", help="with all that waits for it")
        remove.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(**options)

    def say(self, text: str) -> None:
        self.stdout.write(text)

    def find(self, name: str) -> Webhook:
        row = Webhook.objects.filter(name=name).first()
        if row is None:
            raise CommandError(f"There is no webhook {name}: manage.py webhooks list")
        return row

    def add(
        self,
        name: str,
        address: str,
        record: list[str],
        component: list[str],
        **_options: Any,
    ) -> None:
        wanted = list(what_of(record, component))
        webhook = Webhook(name=name, address=address, secret=signing.new_secret())
        try:
            reach.target(address)
            webhook.full_clean()
        except Unreachable as error:
            raise CommandError(f"{error}.") from error
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        with transaction.atomic():
            webhook.save()
            for facts in wanted:
                changes.subscribe(webhook=webhook, **facts)
        self.say(webhook.secret)
        self.stderr.write(
            "Keep this secret now: it is not shown again. "
            f"To see a message arrive: manage.py webhooks test {name}"
        )

    def list(self, **_options: Any) -> None:
        states = Delivery.State
        counts = {
            state: Count("deliveries", filter=Q(deliveries__state=state), distinct=True)
            for state in (states.SENT, states.WAITING, states.GIVEN_UP)
        }
        for row in Webhook.objects.annotate(**counts):
            named = ", ".join(map(str, row.subscriptions.all()))
            told = ", ".join(f"{getattr(row, key)} {key.label}" for key in counts)
            self.say(f"{row.name}  {row.address}  {named}  {told}")
            failed = row.deliveries.exclude(error="").select_related("change")
            for one in failed[:SHOWN]:
                self.say(f"    | {one.change}: {one.get_state_display()}: {one.error}")

    def test(self, name: str, **_options: Any) -> None:
        webhook = self.find(name)
        message = {
            "id": str(uuid.uuid4()),
            "type": "test",
            "sent_at": timestamp(timezone.now()),
        }
        try:
            status = posting.post(webhook, message)
        except Unreachable as error:
            raise CommandError(f"{name} took nothing: {error}.") from error
        self.say(f"{name} answered {status} to the message {message['id']}.")

    def remove(self, name: str, **_options: Any) -> None:
        self.find(name).delete()
        self.say(f"{name} is removed.")


def what_of(records: list[str], components: list[str]) -> list[dict[str, Any]]:
    """The subscriptions asked for. Raises CommandError for what there is not."""
    listed = Record.objects.visible()
    known = set(listed.filter(pk__in=records).values_list("pk", flat=True))
    if missing := [pk for pk in records if pk not in known]:
        raise CommandError(f"There is no record {missing[0]}.")
    named = {one for row in listed.only("components") for one in row.components}
    if unknown := [name for name in components if name not in named]:
        raise CommandError(f"No record is about {unknown[0]}.")
    wanted: list[dict[str, Any]] = [
        {"kind": Kind.RECORD, "record_id": pk} for pk in dict.fromkeys(records)
    ]
    wanted += [
        {"kind": Kind.COMPONENT, "component": name}
        for name in dict.fromkeys(components)
    ]
    return wanted or [{"kind": Kind.EVERYTHING}]
