"""A record's timelines in templates."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from kb import timeline_plot, timeline_words
from kb.findings.timeline import Timeline
from kb.timeline_plot import TimelinePlot

register = template.Library()
register.filter("mark_words", timeline_words.mark_words)


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
