"""What runs showed of one record on one build.

The verdict comes from evidence alone; where nobody ran it, it says so.
"""

from __future__ import annotations

from collections.abc import Collection

from kb import wording
from kb.choices import DeviceClass, Verdict
from kb.findings import results
from kb.models import Finding
from kb.models.finding import FindingQuerySet
from kb.syndication.badges.drawing import COLOURS, NEUTRAL, Badge

# What counts where devices or builds differ: that the bug was seen says most.
STRONGEST = (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT, Verdict.NOT_APPLICABLE)


def make(record: str, build: str, device: str, lang: str) -> Badge:
    device = device_of(device)
    rows = of_cells(Finding.objects.fresh(), record, [build], device)
    verdict = verdict_of(rows)
    right = wording.BADGES[verdict or "untested"].line(lang)
    made_with = results.packages_of(rows.filter(verdict=verdict))
    left = " · ".join(part for part in (record, build, *made_with, device) if part)
    return Badge(left, right, COLOURS.get(verdict or "", NEUTRAL))


def device_of(asked: str) -> str:
    return asked if asked in DeviceClass.values else ""


def of_cells(
    rows: FindingQuerySet, record: str, builds: Collection[str], device: str
) -> FindingQuerySet:
    rows = rows.triggers().of_the_bug().filter(record=record, build__in=builds)
    return rows.filter(device_class=device) if device else rows


def verdict_of(rows: FindingQuerySet) -> Verdict | None:
    """Of what stands about the bug itself; None where nothing does."""
    found = set(rows.values_list("verdict", flat=True))
    # Runs without a verdict are no verdict, whatever kept them from one.
    other = Verdict.ERROR if found else None
    return next((verdict for verdict in STRONGEST if verdict in found), other)
