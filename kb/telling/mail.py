"""Mail to an account: plain text in its language, all that waits in one message."""

from __future__ import annotations

import hashlib
import smtplib
from collections.abc import Sequence

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.utils.translation import ngettext, override

from kb.addresses import absolute
from kb.languages import DJANGO_LANG
from kb.models import Delivery
from kb.syndication.feeds import flip_entry
from kb.telling.reach import Unreachable


def is_on() -> bool:
    return bool(settings.EMAIL_HOST)


def reaches(user: AbstractUser) -> bool:
    """Whether this account is written to at all."""
    return is_on() and bool(user.email) and user.is_active


def message(deliveries: Sequence[Delivery]) -> EmailMessage:
    """Of one account, in the language of the first. The same rows give the same
    Message-ID, by which a mailbox knows a double.
    """
    first = deliveries[0]
    with override(DJANGO_LANG[first.language]):
        entries = [flip_entry(row.change) for row in deliveries]
        lines = [
            {"text": entry.title, "url": absolute(entry.record.get_absolute_url())}
            for entry in entries
        ]
        subject = ngettext(
            "Does it NaN? %(count)d verdict turned",
            "Does it NaN? %(count)d verdicts turned",
            len(lines),
        )
        text = render_to_string("kb/telling/mail.txt", {"lines": lines})
    ids = ",".join(sorted(str(row.pk) for row in deliveries))
    digest = hashlib.sha256(ids.encode()).hexdigest()[:32]
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">") or "localhost"
    return EmailMessage(
        subject % {"count": len(lines)},
        text,
        to=[first.user.email] if first.user else [],
        headers={
            "Message-ID": f"<{digest}@{domain}>",
            "Auto-Submitted": "auto-generated",
        },
    )


def send(deliveries: Sequence[Delivery]) -> None:
    """Raises Unreachable where the mail server did not take it."""
    try:
        message(deliveries).send()
    except (OSError, ValueError, smtplib.SMTPException) as error:
        raise Unreachable(f"mail: {type(error).__name__}") from error
