"""Template tags of verdicts: badges, answers, and what claims and workarounds show."""

from __future__ import annotations

from typing import Any, Protocol

from django import template
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from kb import badges, wording
from kb.badges import Badge
from kb.findings import checks
from kb.languages import current_lang
from kb.models import Record
from kb.pages.record.claim_rows import ClaimRow
from kb.pages.record.workarounds import OnOff
from kb.templatetags.kb import plural_builds, semicolons, short_digest

register = template.Library()


class Shaped(Protocol):
    """What is shown by a shape: a badge, a cell of a matrix."""

    @property
    def shape(self) -> str: ...


@register.filter
def badge_html(badge: Badge, chip: str = "") -> SafeString:
    """A badge as a span: shape, bold word, the rest, counts. `chip`: "chip" or ""."""
    return format_html(
        '<span class="{}v {}">{}</span>',
        "chip " if chip else "",
        badge.css,
        badge_inner(badge),
    )


@register.filter
def badge_inner(badge: Badge) -> SafeString:
    """The same without the span, where what is around it has the colour."""
    word = format_html("<b>{}</b>", badge.word) if badge.word else ""
    rest = f" · {badge.rest}" if badge.word and badge.rest else badge.rest
    gap = " " if badge.counts.startswith("(") else ""
    k = format_html('{}<span class="k">{}</span>', gap, badge.counts)
    return format_html(
        "{}{}{}{}",
        shape_of(badge),
        word,
        rest,
        k if badge.counts else "",
    )


@register.filter
def reason_words(reason: str) -> str:
    return badges.reason_text(reason, current_lang())


@register.simple_tag
def verdict_badge(
    verdict: str,
    hits: int | None,
    trials: int | None,
    fidelity: str,
    reason: str | None = "",
    chip: str = "",
    of: Any = None,
) -> SafeString:
    """{% verdict_badge verdict hits trials fidelity [reason] [chip="chip"] [of=row] %}

    `of`: the evidence, or the group of such, which may have been sent.
    """
    lang = current_lang()
    badge = badges.badge(verdict, hits or 0, trials or 0, fidelity, lang, reason or "")
    return badge_html(badges.faced(badge, of, lang) if of else badge, chip)


@register.simple_tag
def finding_badge(finding: Any, chip: str = "") -> SafeString:
    """The verdict of a `kb.Finding`, or "Not tested" for None."""
    lang = current_lang()
    made = badges.of_finding(finding, lang) if finding else badges.untested(lang)
    return badge_html(made, chip)


@register.simple_tag
def evidence_link(digest: str, text: str = "") -> SafeString:
    """To the page of that evidence, by its short digest where no `text` is given."""
    short = short_digest(digest)
    url = reverse("evidence-detail", args=[short])
    return format_html('<a href="{}">{}</a>', url, text or short)


@register.simple_tag
def cell_word(judged: str) -> str:
    """As a cell of a matrix says it, for its legend."""
    return wording.CELLS[judged][current_lang()]


@register.filter
def shape_of(shown: Shaped) -> SafeString | str:
    if not shown.shape:
        return ""
    css = badges.SHAPE_CSS[shown.shape]
    return format_html('<span class="sh {}">{}</span>', css, shown.shape)


def outcome_word(outcome: str, check: str = "") -> str:
    return badges.outcome(check, outcome, current_lang()) if outcome else ""


@register.simple_tag
def check_title(record: Record, check: str) -> str:
    """What a check does, in the reader's language."""
    return checks.title_of(record, check)[current_lang()]


@register.simple_tag
def claim_sentence(row: ClaimRow) -> str:
    """What was done and what came out; where that differs, on how many builds each."""
    shown = [(claim_outcome(outcome, row), builds) for outcome, builds in row.tally]
    found: str = shown[0][0]
    if len(shown) > 1:
        found = semicolons(
            _("%(words)s on %(builds)s")
            % {"words": words, "builds": plural_builds(builds)}
            for words, builds in shown
        )
    return _("%(did)s: %(found)s.") % {"did": row.did[current_lang()], "found": found}


def claim_outcome(outcome: str, row: ClaimRow) -> str:
    """What came out of a claim's check; of a model, in the words of a model."""
    check = row.claim.check_ref.rpartition(":")[2]
    words = checks.came_out(check, outcome, modelled=row.is_modelled)
    return words[current_lang()] if words else outcome_word(outcome, check)


@register.filter
def workaround_words(status: str) -> str:
    return badges.workaround(status, current_lang())[1]


def answer_of(affected: dict[str, Any]) -> Badge:
    """The five answers to "am I affected", of a look-up's `affected`."""
    return badges.answer_badge(affected["answer"], affected["basis"], current_lang())


@register.simple_tag
def answer_badge(affected: dict[str, Any]) -> SafeString:
    return badge_html(answer_of(affected))


@register.simple_tag
def verdict_mark(verdict: str) -> SafeString:
    """The shape of a verdict alone, beside words that say it."""
    special = {"untested": badges.UNTESTED, "model": badges.MODEL_SHOWN}
    wording = special.get(verdict) or badges.wording(verdict, "")
    badge = wording.badge(current_lang())
    return format_html('<span class="v {}">{}</span>', badge.css, shape_of(badge))


@register.filter
def flip_words(kind: str) -> str:
    """The words of the matrix for a build that differs from the one before it."""
    return {"first_bad": _("bug appears"), "first_good": _("bug gone")}[kind]


@register.simple_tag
def on_off(pair: OnOff) -> SafeString:
    """without ✖ k/n → with ✔ 0/n, from one evidence object."""
    context = {"pair": pair, "helps": pair.applied.outcome == "clean"}
    # Stripped: in a sentence it follows a colon, in Chinese without a gap.
    return mark_safe(render_to_string("kb/_onoff.html", context).strip())  # noqa: S308
