"""Mail over a real connection: what arrives, and what a mail server may do to it."""

from __future__ import annotations

from typing import Any

from django.test import override_settings
from django.utils import timezone

from kb.models import Delivery, Subscription
from kb.telling import changes, outbox
from tests.kb.telling.test_changes import TellingCase
from tests.support.mailbox import Mailbox

State = Delivery.State


class MailboxTest(TellingCase):
    def setUp(self) -> None:
        super().setUp()
        self.mailbox = self.enterContext(Mailbox())
        server: dict[str, Any] = {
            "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "EMAIL_HOST": "127.0.0.1",
            "EMAIL_PORT": self.mailbox.port,
            "DEFAULT_FROM_EMAIL": "site@example.org",
            "SITE_URL": "https://nan.example.org",
        }
        self.enterContext(override_settings(**server))
        everything = Subscription.Kind.EVERYTHING
        changes.subscribe(kind=everything, user=self.user, language="zh")
        self.turn(0)
        self.turn(1)
        changes.note()

    def again(self) -> int:
        Delivery.objects.filter(state=State.WAITING).update(next_at=timezone.now())
        return outbox.deliver_due()

    def said(self) -> set[tuple[str, str]]:
        return set(Delivery.objects.values_list("state", "error"))

    def test_one_mail_arrives_and_no_second(self) -> None:
        self.assertEqual(outbox.deliver_due(), 2)
        self.assertEqual(self.again(), 0)
        ((sender, recipients, mail),) = self.mailbox.got
        self.assertEqual((sender, recipients), ("site@example.org", [self.user.email]))
        self.assertEqual((mail["To"], mail["From"]), (self.user.email, sender))
        self.assertIn("2 个结论有变化", mail["Subject"])
        self.assertEqual(mail["Auto-Submitted"], "auto-generated")
        self.assertRegex(mail["Message-ID"], r"^<[0-9a-f]{32}@example\.org>$")
        text = mail.get_content()
        for record in ("NAN-9001", "NAN-9002"):
            self.assertIn(f"https://nan.example.org/zh/{record}/", text)

    def test_what_a_server_refuses_waits_and_comes_once(self) -> None:
        for verb, answer, error in (
            ("RCPT", "550 no such user", "SMTPRecipientsRefused"),
            ("MAIL", "451 come again", "SMTPSenderRefused"),
            ("DATA", "452 no room", "SMTPDataError"),
            (".", "554 not wanted", "SMTPDataError"),
            ("EHLO", "", "SMTPServerDisconnected"),
        ):
            with self.subTest(verb):
                self.mailbox.answers = {verb: answer}
                self.assertEqual(self.again(), 0)
                self.assertEqual(self.said(), {(State.WAITING, f"mail: {error}")})
        self.assertEqual(self.mailbox.got, [])
        self.mailbox.answers = {}
        self.assertEqual(self.again(), 2)
        self.assertEqual(len(self.mailbox.got), 1)
        self.assertEqual(self.said(), {(State.SENT, "")})

    def test_a_mail_whose_answer_was_lost_comes_again_under_the_same_id(self) -> None:
        self.mailbox.answers = {".": ""}
        self.assertEqual(outbox.deliver_due(), 0)
        self.assertEqual(self.said(), {(State.WAITING, "mail: SMTPServerDisconnected")})
        self.mailbox.answers = {}
        self.assertEqual(self.again(), 2)
        first, second = (mail for _sender, _to, mail in self.mailbox.got)
        self.assertEqual(first["Message-ID"], second["Message-ID"])
        self.assertEqual(first.get_content(), second.get_content())
