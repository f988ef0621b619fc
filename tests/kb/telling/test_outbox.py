"""What waits is told, tried again with growing pauses, given up, and never doubled."""

from __future__ import annotations

import hashlib
import hmac
import socket
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest import mock

from django.core import mail as outgoing
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, override_settings
from django.utils import timezone

from kb.models import Delivery, Subscription, Webhook
from kb.telling import changes, outbox, posting, reach
from kb.telling.reach import Unreachable
from tests.kb.telling.test_changes import TellingCase
from tests.support.receiver import Receiver

State = Delivery.State
MAIL = "django.core.mail.backends.locmem.EmailBackend"


class OutboxCase(TellingCase):
    def setUp(self) -> None:
        super().setUp()
        self.receiver = self.enterContext(Receiver())
        Webhook.objects.update(address=self.receiver.address)
        self.enterContext(override_settings(WEBHOOKS_PRIVATE=True))

    def turned(self) -> Delivery:
        self.subscribe()
        self.turn()
        changes.note()
        return Delivery.objects.get()

    def later(self, row: Delivery, **span: int) -> None:
        """As if so much time had passed."""
        ago = timezone.now() - timedelta(**span)
        Delivery.objects.filter(pk=row.pk).update(created_at=ago, next_at=ago)


class WebhookTest(OutboxCase):
    def test_a_receiver_gets_a_signed_message_once(self) -> None:
        row = self.turned()
        self.assertEqual(outbox.deliver_due(), 1)
        self.assertEqual(outbox.deliver_due(), 0)
        ((path, headers, body),) = self.receiver.got
        self.assertEqual(path, "/hook?room=1")
        self.assertEqual(headers["X-DoesItNaN-Delivery"], str(row.pk))
        given = dict(
            part.split("=") for part in headers["X-DoesItNaN-Signature"].split(",")
        )
        signed = given["t"].encode() + b"." + body
        expected = hmac.new(b"whsec_x", signed, hashlib.sha256).hexdigest()
        self.assertEqual(given["v1"], expected)
        self.assertLess(abs(int(given["t"]) - timezone.now().timestamp()), 60)
        (message,) = self.receiver.messages()
        self.assertEqual(
            (message["record"], message["kind"], message["build"], message["before"]),
            ("NAN-9001", "first_good", "2.6.0-cpu", "2.5.1-cpu"),
        )
        row.refresh_from_db()
        self.assertEqual(row.state, State.SENT)

    def test_it_is_tried_again_with_growing_pauses_and_given_up_after_a_day(
        self,
    ) -> None:
        row = self.turned()
        self.receiver.status = 500
        pauses = []
        for _ in range(4):
            Delivery.objects.update(next_at=timezone.now())
            self.assertEqual(outbox.deliver_due(), 0)
            row.refresh_from_db()
            pauses.append(round((row.next_at - timezone.now()).total_seconds() / 60))
        self.assertEqual(pauses, [1, 2, 4, 8])
        self.assertEqual((row.state, row.error), (State.WAITING, "it answered 500"))
        self.later(row, days=1)
        with self.assertLogs("kb.telling.outbox", "WARNING") as logged:
            outbox.deliver_due()
        row.refresh_from_db()
        self.assertEqual(row.state, State.GIVEN_UP)
        self.assertNotIn("whsec_", str(logged.output))
        out = StringIO()
        call_command("webhooks", "list", stdout=out)
        self.assertIn("given up: it answered 500", out.getvalue())
        self.assertNotIn("whsec_", out.getvalue())

    def test_who_is_killed_after_sending_sends_the_same_id_again(self) -> None:
        row = self.turned()
        killed = mock.patch.object(outbox, "write", side_effect=SystemExit)
        with killed, self.assertRaises(SystemExit):
            outbox.deliver_due()
        self.assertEqual(outbox.deliver_due(), 0)  # the lease of the dead one holds
        self.later(row, minutes=3)
        self.assertEqual(outbox.deliver_due(), 1)
        first, second = self.receiver.messages()
        self.assertEqual(first["id"], second["id"])

    def test_two_workers_do_not_try_the_same_at_once(self) -> None:
        row = self.turned()
        other = Delivery.objects.get()
        self.assertTrue(outbox.claim(row))
        self.assertFalse(outbox.claim(other))

    def test_a_redirect_is_not_followed(self) -> None:
        self.turned()
        self.receiver.status = 307
        outbox.deliver_due()
        self.assertEqual([got[0] for got in self.receiver.got], ["/hook?room=1"])
        error = Delivery.objects.get().error
        self.assertEqual(error, "it answered 307; redirects are not followed")

    def test_the_address_that_was_checked_is_the_one_connected_to(self) -> None:
        """A name server that gives another answer the second time gains nothing."""
        real, asked = socket.getaddrinfo, []

        def answers(host: str, *args: Any, **options: Any) -> Any:
            if host == "receiver.example":
                asked.append(host)
                return real("127.0.0.1" if len(asked) == 1 else "127.0.0.9", *args)
            return real(host, *args, **options)

        port = self.receiver.port
        self.webhook.address = f"http://receiver.example:{port}/"
        with mock.patch.object(socket, "getaddrinfo", answers):
            posting.post(self.webhook, {"id": "1", "type": "test"})
        self.assertEqual(asked, ["receiver.example"])
        self.assertEqual(self.receiver.got[0][1]["Host"], f"receiver.example:{port}")


class ReachTest(SimpleTestCase):
    def test_without_leave_it_is_https_to_a_public_address(self) -> None:
        for address in (
            "http://example.org/",
            "https://127.0.0.1/",
            "https://10.1.2.3/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[fe80::1]/",
            "https://[fd00::1]/",
            "https://[fec0::1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://0.0.0.0/",
            "https://224.0.0.1/",
            "https://2130706433/",
            "https://localhost/",
            "https://user:secret@example.org/",
            "https:///nothing",
            "file:///etc/passwd",
            "https://example.org:99999/",
            "https://example.org/a b\r\nX: y",
        ):
            with self.subTest(address), self.assertRaises(Unreachable) as refused:
                reach.resolve(reach.target(address))
            self.assertNotIn("secret", str(refused.exception))
        for address in ("8.8.8.8", "2606:4700::1111"):
            self.assertTrue(reach.is_public(address))

    def test_a_host_with_one_private_address_is_refused(self) -> None:
        def both(*args: Any, **options: Any) -> Any:
            return [(2, 1, 6, "", ("8.8.8.8", 443)), (2, 1, 6, "", ("10.0.0.1", 443))]

        with mock.patch.object(socket, "getaddrinfo", both):
            self.assertRaises(
                Unreachable, reach.resolve, reach.target("https://example.org/")
            )


class CommandTest(OutboxCase):
    def test_added_tested_and_removed(self) -> None:
        out, err = StringIO(), StringIO()
        address = self.receiver.address
        add = ("webhooks", "add", "mine", address, "--record", "NAN-9001")
        call_command(*add, stdout=out, stderr=err)
        secret = Webhook.objects.get(name="mine").secret
        self.assertEqual(out.getvalue().strip(), secret)
        call_command("webhooks", "test", "mine", stdout=out)
        self.assertIn("mine answered 204 to the message", out.getvalue())
        self.assertEqual(self.receiver.messages()[0]["type"], "test")
        call_command("webhooks", "remove", "mine", stdout=out)
        self.assertFalse(Webhook.objects.filter(name="mine").exists())

    def test_what_cannot_be_is_refused(self) -> None:
        for arguments, reason in (
            (("add", "a b", "https://example.org/"), "slug"),
            (("add", "ours", "https://example.org/"), "already exists"),
            (("add", "new", "gopher://example.org/"), "does not begin with https"),
            (("add", "new", "https://x.org/", "--record", "NAN-0999"), "no record"),
            (("add", "new", "https://x.org/", "--component", "zebra"), "is about"),
            (("test", "nobody"), "no webhook nobody"),
        ):
            with (
                self.subTest(arguments),
                self.assertRaisesMessage(CommandError, reason),
            ):
                call_command("webhooks", *arguments)


class MailTest(OutboxCase):
    def watch(self, **facts: Any) -> None:
        changes.subscribe(
            kind=Subscription.Kind.EVERYTHING, user=self.user, language="zh", **facts
        )
        self.turn(0)
        self.turn(1)
        changes.note()

    def test_all_that_waits_is_one_mail_in_the_language_of_the_account(self) -> None:
        with override_settings(EMAIL_HOST="mail.example", EMAIL_BACKEND=MAIL):
            self.watch()
            self.assertEqual(outbox.deliver_due(), 2)
            self.assertEqual(outbox.deliver_due(), 0)
        (mail,) = outgoing.outbox
        self.assertEqual(mail.to, ["ada@example.org"])
        self.assertIn("NAN-9001", mail.body)
        self.assertIn("/zh/NAN-9002/", mail.body)
        self.assertIn("2 个结论有变化", mail.subject)

    def test_a_mail_server_that_is_away_is_tried_again(self) -> None:
        away = override_settings(
            EMAIL_HOST="127.0.0.1",
            EMAIL_PORT=9,
            EMAIL_BACKEND="django.core.mail.backends.smtp.EmailBackend",
        )
        with away:
            self.watch()
            self.assertEqual(outbox.deliver_due(), 0)
        rows = Delivery.objects.values_list("state", "error")
        self.assertEqual(set(rows), {(State.WAITING, "mail: ConnectionRefusedError")})

    def test_without_mail_the_page_shows_it(self) -> None:
        self.watch()
        self.assertEqual(
            set(Delivery.objects.values_list("state", flat=True)), {State.SHOWN}
        )
        self.assertFalse(outbox.due().exists())
