"""Template tags for verdicts and other texts of a run, in the reader's language."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from kb import wording
from kb.findings import checks
from kb.languages import current_lang
from kb.models import Record
from kb.pages.record.claim_rows import ClaimRow
from kb.templatetags.kb import (
    join_sentences,
    plural_builds,
    semicolons,
    short_digest,
)
from runner import badges, sandbox
from runner.badges import Badge
from runner.models import Evidence, Run, Sweep, Worker
from runner.models.evidence import evidence_path
from runner.pages import telemetry as telemetry_page
from runner.pages.grid import Column, Span, Square
from runner.pages.plot import Plot
from runner.pages.record.answer import RecordAnswer
from runner.templatetags.cells import cell_url

register = template.Library()


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
    if finding is None:
        return badge_html(badges.untested(current_lang()), chip)
    lang = current_lang()
    if not finding.confirmed:
        return badge_html(badges.sent(finding.verdict, finding.origin, lang), chip)
    badge = badges.badge(
        finding.verdict,
        finding.hits,
        finding.trials,
        finding.fidelity,
        lang,
        finding.verdict_reason,
    )
    if finding.is_sent:
        badge = badges.of_origin(badge, finding.origin, lang)
    return badge_html(badge, chip)


@register.simple_tag
def evidence_link(digest: str, text: str = "") -> SafeString:
    """To the page of that evidence, by its short digest where no `text` is given."""
    short = short_digest(digest)
    url = evidence_path(short)
    return format_html('<a href="{}">{}</a>', url, text or short)


@register.simple_tag
def share_url(record: Record, answer: RecordAnswer) -> str:
    """The record in the reader's own language, on the build that is looked at."""
    about = {"torch": answer.choice.value if answer.choice else ""}
    about["device"] = answer.device
    query = urlencode({name: value for name, value in about.items() if value})
    return f"/{record.pk}?{query}"


@register.simple_tag
def cell_word(judged: str) -> str:
    """As a cell of a matrix says it, for its legend."""
    return wording.CELLS[judged][current_lang()]


@register.simple_tag
def check_mark(square: Square, columns: list[Column], record: Record) -> SafeString:
    """What a check shows on one build, or alike on several; links to its evidence."""
    span = Span(columns, [square])
    words: SafeString = format_html('<span class="w">{}</span>', square.text)
    if square.evidence:
        url, title = cell_url(span, record, current_lang()), square.words
        words = format_html('<a href="{}" title="{}">{}</a>', url, title, words)
    return format_html(
        '<span class="v v-{}">{}{}</span>', square.css, shape_of(square), words
    )


def shape_of(shown: Square | Badge) -> SafeString | str:
    if not shown.shape:
        return ""
    return format_html('<span class="sh {}">{}</span>', shown.shape_css, shown.shape)


@register.simple_tag
def run_badge(run: Run, chip: str = "") -> SafeString:
    """The verdict of a finished run, the state of any other."""
    if not run.verdict:
        return format_html(
            '<span class="quiet">{}</span>', badges.state(run.state, current_lang())
        )
    return verdict_badge(
        run.verdict, run.hits, run.trials, run.repro.fidelity, run.reason, chip
    )


@register.filter
def outcome_word(outcome: str, check: str = "") -> str:
    """{{ row.outcome|outcome_word:row.check_name }}"""
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


@register.filter
def tier_of(subject: Any) -> sandbox.Tier | None:
    """The tier of a worker, of evidence, or by its letter; None if nothing is known."""
    if isinstance(subject, Worker):
        return sandbox.stored_tier(subject.sandbox) or sandbox.TIERS.get(subject.tier)
    if isinstance(subject, dict):
        layers = (subject.get("limits") or {}).get("layers")
        return sandbox.evidence_tier(str(subject.get("tier")), layers)
    return sandbox.TIERS.get(subject)


@register.filter
def telemetry_lines(telemetry: dict[str, Any]) -> list[str]:
    return list(telemetry_page.lines(telemetry))


@register.filter
def telemetry_plots(telemetry: dict[str, Any]) -> list[tuple[str, Plot]]:
    return list(telemetry_page.plots(telemetry))


@register.filter
def tier_layers(tier: sandbox.Tier) -> str:
    return sandbox.layer_words(tier.layers)[current_lang() == "zh"]


@register.inclusion_tag("runner/_tier.html")
def tier_line(found: Any, *, layers: bool = True) -> dict[str, Any]:
    """Why the tier is no better, what would help and, unless told not to, its layers.

    `found`: a worker, the body of evidence, or a letter.
    """
    held = tier_of(found)
    return {"held": held, "words": tier_words(held, layers=layers) if held else ""}


def tier_words(tier: sandbox.Tier, *, layers: bool) -> SafeString:
    lang = current_lang()
    words = [getattr(tier, f"reason_{lang}"), getattr(tier, f"remedy_{lang}")]
    if layers and tier.layers:
        held = format_html('<span class="mono">{}</span>', tier_layers(tier))
        words.append(held)
    return join_sentences(words)


@register.filter
def origin_words(origin: str) -> str:
    """Who executed what an evidence object tells."""
    if origin == "site":
        return _("this site")
    if origin in ("shipped", "repository"):
        return _("shipped with the record")
    return f"{origin} · " + _("uploaded by a user, not re-run by us")


@register.filter
def signed_words(row: Evidence | Sweep) -> str:
    """By whose key it was signed; "" of what was not."""
    return " · " + _("signed with %s") % row.signed_by if row.signed_by else ""
