"""Finding records: by the words of a query (here), by a pasted log (kb.lookup)."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.search.rank import match_words
from kb.search.store import current_store
from kb.search.tokens import STOP, WORD, analyse_query, fold, identifiers

MAX_HITS = 50
BEFORE, AFTER = 60, 140


@dataclass(frozen=True)
class Hit:
    """A record found by words; the snippet is HTML with the words in <mark>."""

    record: Record
    score: float
    snippet: SafeString


def find(query: str, lang: str) -> list[Hit]:
    """Published records for words in either language, best first."""
    folded = " ".join(fold(query).lower().split())
    tokens = analyse_query(query)
    if not tokens:
        return []
    matches = match_words(folded, tokens, identifiers(query), current_store())
    matches = matches[:MAX_HITS]
    rows = Record.objects.visible().in_bulk([match.record for match in matches])
    terms = terms_of(folded)
    return [
        Hit(row, round(match.score, 2), snippet(row, terms, lang))
        for match in matches
        if (row := rows.get(match.record))
    ]


def terms_of(query: str) -> list[str]:
    """What a snippet shows: the whole query, its words, their Chinese pairs."""
    words = [word for word in WORD.findall(query) if word not in STOP]
    pairs = [token for token in analyse_query(query) if len(token) > 1]
    return list(dict.fromkeys([query, *words, *pairs]))


def snippet(record: Record, terms: list[str], lang: str) -> SafeString:
    """The passage that shows the first of `terms`, in `lang` where it stands there."""
    texts = passages(record, lang)
    lowered = [text.lower() for text in texts]
    for term in terms:
        for text, lower in zip(texts, lowered, strict=True):
            at = lower.find(term)
            # Lower case may be longer than what it stands for (Turkish i).
            if at >= 0 and len(lower) == len(text):
                return marked(text, at, at + len(term))
    return conditional_escape(record.text("summary", lang))


def passages(record: Record, lang: str) -> list[str]:
    """A record's texts in the order a reader would want to see them quoted."""
    own = [record.text(field, lang) for field in ("summary", *SECTIONS)]
    literal = [entry["text"] for entry in record.signatures]
    literal += [entry["apply"] for entry in record.workarounds]
    literal += [*record.aliases, *(entry["title"] for entry in record.sources)]
    other = [
        record.text(field, code)
        for code in LANGS
        if code != lang
        for field in ("title", "summary", *SECTIONS)
    ]
    return [*own, *literal, *other]


def marked(text: str, start: int, end: int) -> SafeString:
    """The words around text[start:end], that part in <mark>."""
    before = text[max(0, start - BEFORE) : start]
    after = text[end : end + AFTER]
    head = "…" if start > BEFORE else ""
    tail = "…" if end + AFTER < len(text) else ""
    return format_html(
        "{}{}<mark>{}</mark>{}{}",
        head,
        before,
        text[start:end],
        after,
        tail,
    )
