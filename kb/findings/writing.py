"""Writing rows of `Finding`, one writer at a time.

The standing of the record (`kb.findings.standings`) is computed in the same
transaction, so no reader sees one without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from kb.findings import standings
from kb.models import Finding, Record

Key = tuple[str, str, str, str]


def key_of(finding: Finding) -> Key:
    """Unique among the findings of a record."""
    return finding.repro, finding.build, finding.device_class, finding.check_name


@contextmanager
def changing(record: Record, builds: Iterable[str] | None) -> Iterator[None]:
    with transaction.atomic():
        standings.lock()
        yield
        standings.refresh(record, builds)


def show_anew() -> None:
    """What pages say of evidence has changed, though no finding has: none is kept.

    Only within a transaction, whose end lets pages be made again.
    """
    standings.lock()


def offer(
    record: Record, findings: Iterable[Finding], rank: Callable[[Finding], Any]
) -> None:
    """Let each finding replace the stored one of its key, unless that ranks higher."""
    offered = list(findings)
    with changing(record, {finding.build for finding in offered}):
        stored = {key_of(row): row for row in record.findings.all()}
        best = dict(stored)
        for finding in offered:
            key = key_of(finding)
            if key not in best or rank(best[key]) <= rank(finding):
                best[key] = finding
        won = [key for key, finding in best.items() if finding.pk is None]
        replaced = [stored[key].pk for key in won if key in stored]
        record.findings.filter(pk__in=replaced).delete()
        Finding.objects.bulk_create(best[key] for key in won)


def replace(record: Record, findings: Iterable[Finding]) -> None:
    """Make these all the findings of a record.

    An iterator is read when no other writer is at work.
    """
    with changing(record, None):
        record.findings.all().delete()
        Finding.objects.bulk_create(findings)
