"""At most so many an hour, counted from rows so that every process agrees."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Quota:
    """What counts now, oldest first, and how much may."""

    moments: list[datetime]
    limit: int

    @classmethod
    def of(cls, rows: QuerySet[Any], column: str, limit: int) -> Quota:
        """Of these rows, by the moment in this column."""
        recent = rows.filter(**{f"{column}__gt": timezone.now() - HOUR})
        return cls(list(recent.order_by(column).values_list(column, flat=True)), limit)

    @property
    def left(self) -> int:
        return max(0, self.limit - len(self.moments))

    @property
    def reset_s(self) -> int:
        """Seconds until one counts no more; 0 where none does."""
        return free_in_s(self.moments[0]) if self.moments else 0

    @property
    def wait_s(self) -> int:
        """Seconds until one more may follow; 0 where it may now."""
        if self.left:
            return 0
        if not self.limit:
            return int(HOUR.total_seconds())
        return free_in_s(self.moments[-self.limit])


def free_in_s(moment: datetime) -> int:
    """Seconds until what happened then counts no more; at least 1."""
    return max(1, ceil((moment + HOUR - timezone.now()).total_seconds()))
