"""Idempotency-Key: a request that is sent again is answered again, not done again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from kb.problems import Problem
from runner.models.token import KeptAnswer
from runner.runs.fleet import ago

KEPT_FOR = timedelta(hours=24)
KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass
class Answered:
    """What a request was answered: now, or when it came first."""

    body: dict[str, Any]
    status: int
    location: str
    replayed: bool = False


def once(
    key: str | None, requester: str, asked: Any, do: Callable[[], Answered]
) -> Answered:
    """What `do` answers; for a key that was used before, what it answered then.

    A refusal is not kept: whoever was refused may try again with the same key.
    Raises Problem `invalid` for a key of another form, `idempotency_mismatch` for one
    that came with another body.
    """
    if key is None:
        return do()
    if not KEY.fullmatch(key):
        said = _("Idempotency-Key takes 1 to 255 visible ASCII characters.")
        raise Problem("invalid", said)
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    KeptAnswer.objects.filter(created_at__lt=ago(KEPT_FOR)).delete()
    # Who sends the key a second time meanwhile waits for the row of the first.
    with transaction.atomic():
        if not reserve(requester, key, digest):
            return replayed(requester, key, digest)
        answered = do()
        keep(requester, key, answered)
    return answered


def reserve(requester: str, key: str, digest: str) -> bool:
    """False where the key is in use."""
    row = KeptAnswer(requester=requester, key=key, asked=digest)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def keep(requester: str, key: str, answered: Answered) -> None:
    KeptAnswer.objects.filter(requester=requester, key=key).update(
        status=answered.status, location=answered.location, body=answered.body
    )


def replayed(requester: str, key: str, digest: str) -> Answered:
    kept = KeptAnswer.objects.get(requester=requester, key=key)
    if kept.asked != digest:
        said = _("This Idempotency-Key came with another body before. Use a new key.")
        raise Problem("idempotency_mismatch", said)
    return Answered(kept.body, kept.status, kept.location, replayed=True)
