"""When a record came and changed, by its own files: the same on every site."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db.models import Max, Min

from kb.models import Finding, Record
from kb.models.finding import FindingQuerySet

# Of a record that no file dates.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
# What dates are read of, besides runs.
SHOWN = ("updated", "sources")


def verdict_rows() -> FindingQuerySet:
    """The runs that tell of the bug itself."""
    return Finding.objects.fresh().triggers().of_the_bug().order_by()


def first_and_last(records: Iterable[Record]) -> dict[str, tuple[datetime, datetime]]:
    """By id: its first run, else what dates its text; its last run or text."""
    found = {record.pk: record for record in records}
    rows = verdict_rows().filter(record__in=found).values("record")
    moments = rows.annotate(first=Min("observed_at"), last=Max("observed_at"))
    runs = {pk: span for pk, *span in moments.values_list("record", "first", "last")}
    return {pk: span(record, runs.get(pk, [])) for pk, record in found.items()}


def span(record: Record, runs: Iterable[datetime]) -> tuple[datetime, datetime]:
    """`runs`: when its verdicts were observed."""
    days = [record.updated, *(row.get("date", "") for row in record.sources)]
    written = max(days)
    text = datetime.fromisoformat(written).replace(tzinfo=UTC) if written else NEVER
    return min(runs, default=text), max([text, *runs])
