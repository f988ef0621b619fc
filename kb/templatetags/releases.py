"""Template tags about releases and comparisons."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from kb import wording
from kb.choices import Outcome
from kb.models import Finding
from kb.pages import compare
from kb.releases import sides
from kb.releases.asked import Upgrade, upgrade_in
from kb.versions.affected import Answer
from kb.versions.order import release_of
from kb.versions.ranges import UNKNOWN

register = template.Library()


@register.simple_tag
def workaround_outcome(run: Finding) -> SafeString:
    """Whether a workaround helped in this run against the bug."""
    helped = run.outcome == Outcome.CLEAN
    shape, text = wording.WORKAROUNDS["verified" if helped else "does_not_help"]
    css, shape_css = ("v-pass", "sh-y") if helped else ("v-fail", "sh-x")
    return badge(css, shape_css, shape, str(text))


@register.simple_tag
def documented_badge(answer: Answer) -> SafeString:
    """What only documents say: likely, or nothing."""
    if answer.answer == UNKNOWN:
        shape, text = wording.BADGES["untested"]
        return badge("v-none", "sh-u", shape, str(text))
    shape, text = wording.ANSWER_BADGES[answer.answer, False]
    return badge("v-none", "sh-i", shape, str(text))


def badge(css: str, shape_css: str, shape: str, words: str) -> SafeString:
    html = '<span class="v {}"><span class="sh {}">{}</span>{}</span>'
    return format_html(html, css, shape_css, shape, words)


@register.simple_tag
def asked_upgrade(words: str) -> Upgrade | None:
    """The comparison that pasted words ask for, if they do."""
    return upgrade_in(words)


@register.filter
def release_name(raw: str) -> str:
    """The release that a build is of, where that has a page; else ""."""
    side = sides.find(release_of(raw))
    return side.name if side and side.builds else ""


@register.inclusion_tag("kb/compare/_invitation.html")
def compare_pickers() -> dict[str, Any]:
    """From and to, for any page; nothing where fewer than two builds were run."""
    offered = compare.choices()
    return {
        "choices": offered,
        "typed": compare.newest_two(offered),
        "device": "",
        "change": compare.newest_change(offered),
    }
