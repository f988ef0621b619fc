"""Template tags about releases and comparisons."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

from kb import badges, wording
from kb.badges import Badge
from kb.choices import Outcome
from kb.languages import current_lang
from kb.models import Finding
from kb.pages import compare
from kb.releases import sides
from kb.releases.asked import Upgrade, upgrade_in
from kb.templatetags.verdicts import badge_html
from kb.versions.affected import Answer
from kb.versions.order import release_of
from kb.versions.ranges import UNKNOWN

register = template.Library()


@register.simple_tag
def workaround_outcome(run: Finding) -> SafeString:
    """Whether a workaround helped in this run against the bug."""
    helped = run.outcome == Outcome.CLEAN
    shape, text = wording.WORKAROUNDS["verified" if helped else "does_not_help"]
    return badge_html(Badge(shape, "v-pass" if helped else "v-fail", "", str(text)))


@register.simple_tag
def documented_badge(answer: Answer) -> SafeString:
    """What only documents say: likely, or nothing."""
    lang = current_lang()
    if answer.answer == UNKNOWN:
        return badge_html(badges.untested(lang))
    return badge_html(badges.answer_badge(answer.answer, "none", lang))


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
