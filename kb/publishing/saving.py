"""Saving a record: its row, its place in the search index, and its standing.

`Record.save` is Django's own and knows of neither index nor standing, and so is
`QuerySet.update`: whoever changes a record of the site calls `save` here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from kb.findings import standings
from kb.models import Record
from kb.search.index import writer


def save(
    record: Record,
    claims: Sequence[Mapping[str, Any]] | None = None,
    repros: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Save a record with all that follows from it, in one transaction.

    `claims`: the columns of all its claims in their order; `repros`: the columns of
    all its repros by name. Those that are left out are deleted; None keeps all.
    """
    with transaction.atomic():
        record.save()
        if claims is not None:
            set_claims(record, claims)
        if repros is not None:
            set_repros(record, repros)
        writer.write([record])
        standings.refresh(record)


def set_claims(record: Record, claims: Sequence[Mapping[str, Any]]) -> None:
    record.claims.exclude(cid__in=[values["cid"] for values in claims]).delete()
    for position, values in enumerate(claims):
        defaults = {**values, "position": position}
        record.claims.update_or_create(cid=values["cid"], defaults=defaults)


def set_repros(record: Record, repros: Mapping[str, Mapping[str, Any]]) -> None:
    record.repros.exclude(name__in=repros).delete()
    for name, values in repros.items():
        record.repros.update_or_create(name=name, defaults=dict(values))
