"""A record's timelines in templates."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from kb.findings.timeline import Point, Timeline
from kb.pages import timeline_plot
from kb.pages.timeline_plot import TimelinePlot, mark_words
from kb.templatetags.kb import commas

register = template.Library()


@register.filter
def documented(point: Point) -> SafeString:
    """Marks of a version, and whether the range has it; "" where nothing is known."""
    said = [mark_words(mark.kind) for mark in point.marks]
    if point.affected is not None:
        inside, outside = _("in the affected range"), _("outside the affected range")
        said.append(inside if point.affected else outside)
    return commas(said)


@register.filter
def drawn(axis: Timeline) -> TimelinePlot:
    return timeline_plot.draw(axis)


@register.filter
def flip_words(kind: str) -> str:
    """The words of the matrix for a build that differs from the one before it."""
    return {"first_bad": _("first bad"), "first_good": _("first good")}[kind]


@register.filter
def plus(number: float, more: float) -> float:
    return number + more
