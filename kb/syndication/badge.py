"""A badge for a README: what runs showed of one record on one build, as an SVG.

The verdict comes from evidence alone; where nobody ran it, it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control

from kb import wording
from kb.choices import OUR_ORIGINS, DeviceClass, Verdict
from kb.languages import DJANGO_LANG
from kb.models import Finding, Record
from kb.models.finding import FindingQuerySet

# What counts where devices differ: that the bug was seen says most.
STRONGEST = (
    Verdict.BUG_PRESENT,
    Verdict.BUG_ABSENT,
    Verdict.NOT_APPLICABLE,
    Verdict.ERROR,
)
COLOURS: dict[str, str] = {
    Verdict.BUG_PRESENT: "#b3261e",
    Verdict.BUG_ABSENT: "#0b5cad",
    Verdict.ERROR: "#5b4a8a",
}
NEUTRAL = "#57606a"
FRESH_S = 300
PADDING = 8
NARROW, WIDE = 6.6, 11


@dataclass(frozen=True)
class Badge:
    """`left` names what was asked, `right` is the verdict in words."""

    left: str
    right: str
    colour: str

    @property
    def left_width(self) -> int:
        return width(self.left)

    @property
    def right_width(self) -> int:
        return width(self.right)

    @property
    def whole_width(self) -> int:
        return self.left_width + self.right_width

    @property
    def left_text(self) -> int:
        return self.left_width - 2 * PADDING

    @property
    def right_start(self) -> int:
        return self.left_width + PADDING

    @property
    def right_text(self) -> int:
        return self.right_width - 2 * PADDING


def width(text: str) -> int:
    """Of the text with its margins; fonts differ, and the text is made to fit."""
    return round(sum(WIDE if ord(c) > 0x2E7F else NARROW for c in text)) + 2 * PADDING


def answer(request: HttpRequest, record_id: str, build: str) -> HttpResponse:
    if not Record.objects.addressable().filter(pk=record_id).exists():
        raise Http404
    lang = request.GET.get("lang", "en")
    badge = make(record_id, build, request.GET.get("device", ""), lang)
    response = render(request, "kb/badge.svg", {"badge": badge}, "image/svg+xml")
    patch_cache_control(response, public=True, max_age=FRESH_S)
    return response


def make(record: str, build: str, device: str, lang: str) -> Badge:
    lang = lang if lang in DJANGO_LANG else "en"
    device = device if device in DeviceClass.values else ""
    verdict = verdict_of(record, build, device)
    said = wording.BADGES[verdict or unsettled(record, build, device)]
    right = said.line(lang)
    if verdict and (sender := sender_of(verdict, record, build, device)):
        right += " · " + wording.CONFIRMED[lang].format(origin=sender)
    left = " · ".join(part for part in (record, build, device) if part)
    return Badge(left, right, COLOURS.get(verdict or "", NEUTRAL))


def unsettled(record: str, build: str, device: str) -> str:
    """What is said without a verdict: that somebody sent one, or nobody ran it."""
    sent = of_cell(Finding.objects.fresh(), record, build, device)
    return "sent" if sent.exists() else "untested"


def sender_of(verdict: str, record: str, build: str, device: str) -> str:
    """Who sent what the verdict rests on; "" where a run of ours has it, too."""
    rows = of_cell(Finding.objects.standing(), record, build, device)
    origins = set(rows.filter(verdict=verdict).values_list("origin", flat=True))
    return "" if origins & set(OUR_ORIGINS) else min(origins, default="")


def of_cell(
    rows: FindingQuerySet, record: str, build: str, device: str
) -> FindingQuerySet:
    rows = rows.triggers().of_the_bug().filter(record=record, build=build)
    return rows.filter(device_class=device) if device else rows


def verdict_of(record: str, build: str, device: str) -> Verdict | None:
    """Of what stands about the bug itself; None where nothing does."""
    rows = of_cell(Finding.objects.standing(), record, build, device)
    found = set(rows.values_list("verdict", flat=True))
    strongest = next((verdict for verdict in STRONGEST if verdict in found), None)
    # Runs without a verdict are no verdict, whatever kept them from one.
    return strongest or (Verdict.ERROR if found else None)
