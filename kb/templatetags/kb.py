"""Filters for the pages: texts by language, numbers, values that are not numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _, ngettext

from kb import wording
from kb.choices import (
    DEVICE_NAMES,
    FIX_KINDS,
    FRAMEWORKS,
    HOLDS_ANYWHERE_BY,
    HOLDS_THERE_BY,
    PRECONDITIONS,
    SOURCE_KINDS,
    ClaimState,
)
from kb.languages import COMMA, LIST_COMMA, SEMICOLON, SPACE, Text, current_lang
from kb.models import Claim, Record
from kb.models.symptom import Explained
from kb.pages import prose
from kb.pages.facets import value_label
from kb.pages.highlight import python_html

register = template.Library()
NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")
NOT_A_NUMBER = re.compile(r"(?<![\w.+-])[-+]?(?:nan|inf)(?!\.?\w)")
# A browser breaks such a name anywhere unless it is told where; no tag is one.
LONG_NAME = re.compile(r"[^\s<>]{20,}")
AFTER_STOP = re.compile(r"(?<=[。：；])\s+")
JOINT = re.compile(r"(?<=\w)(?:[_(]|\.(?!\d))(?=\w)")


@register.filter
def text(record: Explained | Record, field: str) -> str:
    """The `field` in the reader's language."""
    return record.text(field, current_lang())


@register.filter
def claim_text(claim: Claim) -> str:
    return claim.text_zh if current_lang() == "zh" else claim.text_en


@register.filter
def bilingual(texts: Text | dict[str, str] | str | None) -> str:
    """{"en": …, "zh": …} in the reader's language."""
    if isinstance(texts, dict):
        return texts.get(current_lang(), "")
    return str(texts or "")


@register.simple_tag
def prose_of(record: Record, section: str) -> SafeString:
    return prose_html(prose.section(record, section))


@register.filter
def prose_html(html: str) -> SafeString:
    """Prose in its box; no box around nothing."""
    # Rendered and cleaned when the record was saved (kb.records.rendering).
    safe = mark_safe(html)  # noqa: S308
    box = '<div class="prose" hx-disable>{}</div>'
    return format_html(box, safe) if html else SafeString()


@register.filter
def nanify(value: Any) -> SafeString:
    """nan, inf and -inf in reverse print, all escaped; long names may wrap."""
    escaped = str(conditional_escape(value))
    marked = NOT_A_NUMBER.sub(lambda hit: f'<i class="nan">{hit[0]}</i>', escaped)
    return mark_safe(  # noqa: S308
        LONG_NAME.sub(lambda hit: JOINT.sub(r"\g<0><wbr>", hit[0]), marked)
    )


@register.filter
def linked(text: str, candidates: Iterable[Any]) -> SafeString:
    """A sentence of a look-up, each record that is a candidate in it a link."""
    marked = str(nanify(text))
    for item in candidates:
        if item.url:
            record = item.found["record"]
            link = format_html('<a href="{}">{}</a>', item.url, record)
            marked = marked.replace(record, link)
    return mark_safe(marked)  # noqa: S308


@register.filter
def value(observed: Any) -> SafeString:
    """One observation as code: numbers to six digits, non-finite in reverse."""
    if isinstance(observed, dict) and "$float" in observed:
        return nanify(observed["$float"])
    if isinstance(observed, bool):
        return escape(str(observed).lower())
    if isinstance(observed, float):
        return escape(f"{observed:.6g}")
    if isinstance(observed, list):
        return mark_safe(series(observed))  # noqa: S308
    return nanify(observed)


def series(items: list[Any]) -> str:
    """A list by its ends: "1.36347 … 0.643351 (20)"."""
    if len(items) <= 3:
        return ", ".join(value(item) for item in items)
    return f"{value(items[0])} … {value(items[-1])} ({len(items)})"


@register.filter
def kib(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB"


@register.filter
def short_digest(digest: str) -> str:
    """The first twelve hex digits, as in addresses."""
    return digest.removeprefix("sha256:")[:12]


@register.filter
def clock(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment else "–"


@register.filter
def day(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d") if moment else "–"


@register.filter
def fix_kind(kind: str) -> str:
    return str(FIX_KINDS.get(kind, kind))


@register.filter
def not_executed(reason: str) -> str:
    return str(wording.NOT_EXECUTED[reason])


@register.filter
def source_kind(kind: str) -> str:
    return str(SOURCE_KINDS.get(kind, kind))


@register.filter
def verdict_label(verdict: str) -> str:
    """The words of a verdict, as beside its box in the filter."""
    return value_label("verdict", verdict)


@register.filter
def variant(repro: str) -> str:
    """A further repro's name as words: "after zero grad" of repro_after_zero_grad."""
    return repro.removeprefix("repro_").replace("_", " ")


@register.filter
def plural_builds(count: int) -> str:
    return ngettext("%(count)d build", "%(count)d builds", count) % {"count": count}


@register.filter
def commas(parts: Iterable[Any]) -> SafeString:
    """ "a, b", in Chinese "a，b"; what is not marked as safe is escaped."""
    return format_html_join(COMMA[current_lang()], "{}", ((part,) for part in parts))


def semicolons(parts: Iterable[Any]) -> SafeString:
    """ "a; b", in Chinese "a；b"; what is not marked as safe is escaped."""
    sign = SEMICOLON[current_lang()]
    return format_html_join(sign, "{}", ((part,) for part in parts))


@register.filter
def fix_versions(fixes: Iterable[dict[str, Any]]) -> SafeString:
    """A line for each fix: its kind, which leads to its section, and its version."""
    words = _(
        '<a href="#fix">%(kind)s</a>: <span class="mono nowrap">%(version)s</span>'
    )
    found = [
        words
        % {
            "kind": escape(fix_kind(fix["kind"])),
            "version": escape(f"{fix['package']} {fix['version']}"),
        }
        for fix in fixes
    ]
    return mark_safe("<br>".join(found))  # noqa: S308


@register.filter
def precondition_title(item: dict[str, Any]) -> str:
    """What a precondition is about: "GPU", "data type"."""
    return str(PRECONDITIONS[item["key"]])


@register.filter
def where_it_holds(record: Record) -> str:
    """On which devices its cause holds, and why there; "" where nothing says so."""
    if not record.holds_on:
        return ""
    devices, why = record.holds_on["devices"], record.holds_on["why"]
    if why in HOLDS_ANYWHERE_BY:
        return _("The cause holds on every device: %s.") % HOLDS_ANYWHERE_BY[why]
    named = LIST_COMMA[current_lang()].join(DEVICE_NAMES[name] for name in devices)
    values = {"devices": named, "why": HOLDS_THERE_BY[why]}
    return _("The cause holds on %(devices)s: %(why)s.") % values


@register.filter
def is_literal(item: dict[str, Any]) -> bool:
    """Whether its value is something to type; not one that is a name of ours."""
    ours = item["key"] in ("other", "shape") and NAME.fullmatch(item["value"])
    return not ours


@register.filter
def cited(source: dict[str, Any]) -> SafeString:
    """What kind of source, linked where it has an address, and its date."""
    if not source:
        return SafeString()
    kind = source_kind(source["kind"])
    if source.get("url"):
        link = '<a href="{}" rel="nofollow noopener">{}</a>'
        kind = format_html(link, source["url"], kind)
    whole = format_html('<span class="nowrap">{}</span>', source.get("date", ""))
    return commas([kind, whole] if source.get("date") else [kind])


@register.simple_block_tag
def labelled(content: str, label: str) -> SafeString:
    """What the tag holds behind a label: "label: …", in Chinese "label：…"."""
    words = {"label": conditional_escape(label), "text": content.strip()}
    return mark_safe(_("%(label)s: %(text)s") % words)  # noqa: S308


@register.simple_block_tag
def fold(content: str, name: str, title: str, count: str = "") -> SafeString:
    """What is folded under a title and what is in it; an address with #name opens it.

    The name is inside: a browser opens what is around a target.
    """
    return format_html(
        "<details><summary><b>{}</b><span>{}</span></summary>"
        '<div id="{}">{}</div></details>',
        *(title, count, name, mark_safe(content)),  # noqa: S308
    )


@register.simple_tag
def digest_link(digest: str) -> SafeString:
    short = short_digest(digest)
    url = reverse("evidence-detail", args=[short])
    return format_html('<a class="mono" href="{}">{}</a>', url, short)


@register.simple_tag
def gap() -> str:
    """The space after a colon or a sentence; Chinese has none."""
    return SPACE[current_lang()]


@register.simple_block_tag
def sentences(content: str) -> SafeString:
    """Sentences and links, some of them left out: Chinese has no space between them."""
    if current_lang() == "zh":
        content = AFTER_STOP.sub("", content)
    return mark_safe(content)  # noqa: S308


@register.filter
def join_words(words: Iterable[Any], css: str = "") -> SafeString:
    """ "a, b"; in Chinese "a、b". With `css` each is in a span of that class."""
    comma = LIST_COMMA[current_lang()]
    span = f'<span class="{escape(css)}">{{}}</span>' if css else "{}"
    return format_html_join(comma, span, ((word,) for word in words))


@register.filter
def join_sentences(sentences: Iterable[str]) -> SafeString:
    """One after the other, without those that are empty; Chinese has no gap."""
    return format_html_join(gap(), "{}", ((text,) for text in sentences if text))


CLAIM_MARKS = {
    ClaimState.VERIFIED: ("cl-v", "="),
    ClaimState.REFUTED: ("cl-r", "≠"),
    ClaimState.DISPUTED: ("cl-x", "≈"),
    ClaimState.DOCUMENTED: ("cl-d", "·"),
}


@register.simple_tag
def claim_state(state: str) -> SafeString:
    """= verified, ≠ refuted by run, ≈ disputed, · documented only."""
    known = ClaimState(state)
    mark = '<span class="cl {}"><span class="vh">{} </span>{}</span>'
    return format_html(mark, *CLAIM_MARKS[known], known.label)


@register.simple_tag
def claim_states(rows: Iterable[Any]) -> SafeString:
    """In which states claims are, each with their number."""
    counts = Counter(row.state for row in rows)
    one = '<span>{} <span class="k">{}</span></span>'
    pairs = ((claim_state(state), count) for state, count in counts.items())
    return format_html(
        '<span class="claim-states">{}</span>', format_html_join(" ", one, pairs)
    )


@register.simple_tag
def framework_name(name: str) -> str:
    return FRAMEWORKS[name]


@register.inclusion_tag("_snippet.html")
def snippet(title: str, code: str) -> dict[str, object]:
    """What code does, then the code, which scrolls and never wraps."""
    return {"title": title, **copyline(code)}


@register.inclusion_tag("_copy.html")
def copyline(code: str) -> dict[str, object]:
    """Code with a copy button, which needs JavaScript; several lines in colour."""
    lines = "\n" in code
    shown = python_html(code) if lines else ""
    return {"code": code, "lines": lines, "shown": shown, "done": _("Copied")}
