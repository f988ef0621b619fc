"""A record's releases as an SVG for READMEs and issues: the strip of its page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _, override
from django.views.decorators.http import require_safe

from kb.choices import Publication, Verdict
from kb.findings.strip import Run, Strip, of_record
from kb.languages import COLON, DJANGO_LANG, SEMICOLON, current_lang
from kb.models import Record
from kb.versions import affected_line

COLOURS: dict[str, str] = {
    Verdict.BUG_PRESENT: "#b3261e",
    Verdict.BUG_ABSENT: "#0b5cad",
    Verdict.ERROR: "#5b4a8a",
}
NEUTRAL = "#57606a"
# Corners in hundredths of a square, as the pages clip them (static/css/verdicts.css).
SHAPES: dict[str, str] = {
    Verdict.BUG_PRESENT: "15,0 50,35 85,0 100,15 65,50 100,85 85,100 50,65 15,100 0,85 "
    "35,50 0,15",
    Verdict.BUG_ABSENT: "0,54 13,38 37,64 86,6 100,20 38,94",
    Verdict.NOT_APPLICABLE: "0,40 100,40 100,60 0,60",
}
NO_RESULT = "50,2 100,98 0,98"
# A copy may be kept for so long.
FRESH_S = 300
PADDING = 8
NARROW, WIDE = 6.6, 11
MARGIN, STEP, LEGEND_ROW = 14, 44, 20
HEAD, LANE, LEAST_WIDTH = 36, 72, 560
# A picture in an issue is some 800 pixels wide at most.
BAR = "0,35 100,35 100,65 0,65"


class Sign(NamedTuple):
    """A shape in its colour, with a text beside it."""

    x: int
    y: int
    colour: str
    shape: str
    text: str


class Picture(NamedTuple):
    """`title` states the ranges; `name` and `heading` are what stands over them."""

    name: str
    heading: str
    title: str
    said: str
    lanes: list[tuple[int, Strip, list[tuple[Run, Sign]]]]
    legend: list[Sign]
    whole_width: int
    height: int


@require_safe
def picture(request: HttpRequest, record_id: str) -> HttpResponse:
    """At an address without a language, so that `?lang=` chooses it."""
    rows = Record.objects.addressable().defer("html")
    record = get_object_or_404(rows, pk=record_id)
    lang = request.GET.get("lang", "")
    with override(DJANGO_LANG.get(lang, DJANGO_LANG["en"])):
        drawn = {"picture": draw(record)}
        response = render(request, "kb/releases.svg", drawn, "image/svg+xml")
    patch_cache_control(response, public=True, max_age=FRESH_S)
    return response


def draw(record: Record) -> Picture:
    """In the active language."""
    lang = current_lang()
    strips = strips_of(record)
    said = sentence(record, strips)
    cells = max([0, *(len(strip.runs) for strip in strips)])
    whole = max(LEAST_WIDTH, 2 * MARGIN + cells * STEP)
    lanes = [
        (y, strip, [(run, sign_at(n, y, run)) for n, run in enumerate(strip.runs)])
        for y, strip in zip(range(HEAD, 10_000, LANE), strips, strict=False)
    ]
    legend = list(legend_of(strips, HEAD + (LANE * len(strips) or LEGEND_ROW), whole))
    end = legend[-1].y + LEGEND_ROW if legend else HEAD + LEGEND_ROW
    if documented := documented_line(record):
        shown = cut(documented, whole - 2 * MARGIN)
        legend.append(Sign(MARGIN, end, NEUTRAL, BAR, shown))
        end += LEGEND_ROW
    return Picture(
        name=record.id,
        heading=cut(record.text("title", lang), whole - 2 * MARGIN - 60),
        title=record.id + COLON[lang] + ("; ".join(one.said for one in strips) or said),
        said=said,
        lanes=lanes,
        legend=legend,
        whole_width=whole,
        height=end + 6,
    )


def strips_of(record: Record) -> list[Strip]:
    if record.publication == Publication.WITHDRAWN:
        return []
    return of_record(record, record.findings.all(), "")


def sentence(record: Record, strips: list[Strip]) -> str:
    """What stands in place of the strips where there are none."""
    if record.publication == Publication.WITHDRAWN:
        return _("Withdrawn.")
    if strips:
        return ""
    if any(row.is_model for row in record.findings.all()):
        return _("Only a model of the mechanism was run; it judges no release.")
    return _("Not run on any release yet.")


def documented_line(record: Record) -> str:
    """ "Documented: torch ≥ 2.0, < 2.5.0"; "" where no version is."""
    named = SEMICOLON[current_lang()].join(map(str, affected_line.of_record(record)))
    return _("Documented: %s") % named if named else ""


def cut(text: str, room: int) -> str:
    """As much of it as has room; fonts differ, and are taken for wide."""
    while width(text) > room:
        text = text[:-2].rstrip() + "…"
    return text


def width(text: str) -> int:
    """Of the text with its margins."""
    return round(sum(WIDE if ord(c) > 0x2E7F else NARROW for c in text)) + 2 * PADDING


def sign_at(number: int, y: int, run: Run) -> Sign:
    return sign(MARGIN + number * STEP, y, run, run.label)


def sign(x: int, y: int, run: Run, text: str) -> Sign:
    verdict = Verdict(run.cell.verdict)
    shape = SHAPES.get(verdict, NO_RESULT)
    return Sign(x, y, COLOURS.get(verdict, NEUTRAL), shape, text)


def legend_of(strips: list[Strip], y: int, whole: int) -> Iterator[Sign]:
    """Each range in words, beside one another where there is room."""
    for strip in strips:
        x = MARGIN
        for part in strip.ranges:
            said = strip.said_of(part)
            taken = width(said) + 24
            if x > MARGIN and x + taken > whole - MARGIN:
                x, y = MARGIN, y + LEGEND_ROW
            yield sign(x, y, part.first, said)
            x += taken
        y += LEGEND_ROW
