"""Rows of kept answers: who may make one, how many, and who may delete it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _

from kb.hourly import Quota
from kb.lookup.keeping import Kept
from kb.models import SharedAnswer
from kb.models.shared import ID_CHARS
from kb.requester import requester

# On the whole site; each is at most kb.lookup.keeping.MOST_BYTES.
MOST_ANSWERS = 10_000
RETRY_S = 3600
SALT = "kb.sharing"
# The answers that this browser has made.
COOKIE = "dtn_kept"
MOST_IN_COOKIE = 20
MAY_DELETE = "kb.delete_sharedanswer"


@dataclass(frozen=True)
class Refusal:
    """Why nothing was kept, with the status that says so."""

    text: str
    status: int
    wait_s: int = 0


def is_on() -> bool:
    return bool(settings.SHARED_ANSWER_DAYS)


def may_keep(request: HttpRequest) -> bool:
    """Whether this reader may keep answers here."""
    known = not isinstance(request.user, AnonymousUser)
    return is_on() and (settings.SHARES_ANONYMOUS or known)


def maker_of(request: HttpRequest) -> str:
    """A digest of whom the request is counted for; of it no address can be read."""
    return salted_hmac(SALT, requester(request), algorithm="sha256").hexdigest()[:32]


def refusal(kept: Kept, maker: str) -> Refusal | None:
    """Why this may not be kept now, or None."""
    if kept.is_empty:
        return Refusal(_("Nothing is left to be kept."), 400)
    if kept.is_too_long:
        return Refusal(
            _("That is more than can be kept: take lines out that do not matter."), 413
        )
    made = SharedAnswer.objects.filter(maker=maker)
    quota = Quota.of(made, "created_at", settings.SHARES_PER_HOUR)
    if quota.wait_s:
        text = _("You have kept %d answers within an hour; that is the limit here.")
        return Refusal(text % len(quota.moments), 429, quota.wait_s)
    if SharedAnswer.objects.current().count() >= MOST_ANSWERS:
        return Refusal(_("This site keeps no more answers for now."), 503, RETRY_S)
    return None


def keep(kept: Kept, maker: str) -> SharedAnswer:
    now = timezone.now()
    return SharedAnswer.objects.create(
        log=kept.log,
        env=kept.env,
        maker=maker,
        created_at=now,
        expires_at=now + timedelta(days=settings.SHARED_ANSWER_DAYS),
    )


def find(answer_id: str) -> SharedAnswer | None:
    """What is shown under this id: nothing that has expired, or on a site without."""
    if not is_on():
        return None
    return SharedAnswer.objects.current().filter(pk=answer_id).first()


# --- deletion ---------------------------------------------------------------------
def token_of(row: SharedAnswer) -> str:
    """The code that deletes it; it is stored nowhere."""
    return salted_hmac(f"{SALT}.delete", row.pk, algorithm="sha256").hexdigest()


def may_delete(request: HttpRequest, row: SharedAnswer, token: str = "") -> bool:
    """Whoever has its token, the browser or account that made it, and staff."""
    user = request.user
    if token and constant_time_compare(token, token_of(row)):
        return True
    if row.pk in made_here(request) or user.has_perm(MAY_DELETE):
        return True
    known = not isinstance(user, AnonymousUser)
    return known and constant_time_compare(row.maker, maker_of(request))


def delete(row: SharedAnswer) -> None:
    row.delete()


def made_here(request: HttpRequest) -> list[str]:
    """Ids of answers that this browser has made, as its signed cookie names them."""
    try:
        named = request.get_signed_cookie(COOKIE, salt=SALT)
    except (KeyError, signing.BadSignature):
        return []
    return [name for name in (named or "").split(".") if len(name) == ID_CHARS]


def remember(request: HttpRequest, response: HttpResponse, row: SharedAnswer) -> None:
    ids = [row.pk, *made_here(request)][:MOST_IN_COOKIE]
    response.set_signed_cookie(
        COOKIE,
        ".".join(ids),
        salt=SALT,
        max_age=settings.SHARED_ANSWER_DAYS * 24 * 3600,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
