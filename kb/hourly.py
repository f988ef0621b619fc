"""At most so many an hour, counted from rows so that every process agrees."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

HOUR = timedelta(hours=1)


def moments(rows: QuerySet[Any], column: str) -> list[datetime]:
    """Values of this column of the rows that count now, oldest first."""
    recent = rows.filter(**{f"{column}__gt": timezone.now() - HOUR})
    return list(recent.order_by(column).values_list(column, flat=True))


def free_in_s(moment: datetime) -> int:
    """Seconds until what happened then counts no more; at least 1."""
    return max(1, ceil((moment + HOUR - timezone.now()).total_seconds()))


def wait_s(counted: Sequence[datetime], limit: int) -> int:
    """Seconds until one more may follow these `moments`; 0 where it may now."""
    if len(counted) < limit:
        return 0
    return free_in_s(counted[-limit]) if limit else int(HOUR.total_seconds())
