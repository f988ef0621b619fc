"""A record's timelines in templates."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from kb.findings.timeline import Timeline
from kb.pages import timeline_plot
from kb.pages.timeline_plot import TimelinePlot

register = template.Library()
register.filter("mark_words", timeline_plot.mark_words)


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
