"""What runs showed of one record on one build.

The verdict comes from evidence alone; where nobody ran it, it says so.
"""

from __future__ import annotations

from collections.abc import Collection

from kb import wording
from kb.choices import OUR_ORIGINS, DeviceClass, Verdict
from kb.findings.release_row import strongest
from kb.models import Finding
from kb.models.finding import FindingQuerySet
from kb.syndication.badges.drawing import COLOURS, NEUTRAL, Badge


def make(record: str, build: str, device: str, lang: str) -> Badge:
    device = device_of(device)
    verdict = verdict_of(record, [build], device)
    said = wording.BADGES[verdict or unsettled(record, build, device)]
    right = said.line(lang)
    if verdict and (sender := sender_of(verdict, record, [build], device)):
        right += " · " + wording.CONFIRMED[lang].format(origin=sender)
    left = " · ".join(part for part in (record, build, device) if part)
    return Badge(left, right, COLOURS.get(verdict or "", NEUTRAL))


def device_of(asked: str) -> str:
    return asked if asked in DeviceClass.values else ""


def unsettled(record: str, build: str, device: str) -> str:
    """What is said without a verdict: that somebody sent one, or nobody ran it."""
    sent = of_cells(Finding.objects.fresh(), record, [build], device)
    return "sent" if sent.exists() else "untested"


def sender_of(
    verdict: Verdict, record: str, builds: Collection[str], device: str
) -> str:
    """Who sent what the verdict rests on; "" where a run of ours has it, too."""
    rows = of_cells(Finding.objects.standing(), record, builds, device)
    origins = set(rows.filter(verdict=verdict).values_list("origin", flat=True))
    return "" if origins & set(OUR_ORIGINS) else min(origins, default="")


def of_cells(
    rows: FindingQuerySet, record: str, builds: Collection[str], device: str
) -> FindingQuerySet:
    rows = rows.triggers().of_the_bug().filter(record=record, build__in=builds)
    return rows.filter(device_class=device) if device else rows


def verdict_of(record: str, builds: Collection[str], device: str) -> Verdict | None:
    """Of what stands about the bug itself; None where nothing does."""
    rows = of_cells(Finding.objects.standing(), record, builds, device)
    return strongest(set(rows.values_list("verdict", flat=True)))
