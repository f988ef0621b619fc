"""`Authorization: Bearer dtn_…`: a program that acts for a user."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from kb.problems import Problem
from runner.models.token import Token, digest_of

SCHEME = "bearer"
MAX_SECRET = 100


class TokenAuthentication(BaseAuthentication):
    """A token that is not valid is refused, also where nobody need be known."""

    def authenticate(self, request: Request) -> tuple[Any, Token] | None:
        scheme, _space, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != SCHEME:
            return None
        token = find(secret.strip())
        if token is None or not token.is_valid:
            said = _("The token is unknown, expired or revoked: ask for a new one.")
            raise Problem("unauthenticated", said)
        token.note_use()
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def find(secret: str) -> Token | None:
    if len(secret) > MAX_SECRET or not secret.isascii():
        return None
    rows = Token.objects.select_related("user")
    return rows.filter(digest=digest_of(secret)).first()
