"""The secret of a webhook and its signature, by which a receiver knows the sender."""

from __future__ import annotations

import hashlib
import hmac
import secrets

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def signature(secret: str, body: bytes, moment: int) -> str:
    """`t=<seconds since 1970>,v1=<hex>`: HMAC-SHA256 over "<t>.<body>".

    The moment is signed, so that a receiver can refuse what somebody recorded.
    """
    signed = f"{moment}.".encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"
