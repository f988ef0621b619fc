"""Prose in the reader's language, field by field; in the other where it is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kb.languages import HTML_TAG, OTHER, current_lang
from kb.models import Record

LOG_FENCE = re.compile(r'<pre(?: tabindex="0")?>(<code class="language-log">)')
# What stands at the top of a section, and what of it counts as a word: two characters
# of Chinese are about one of English.
BLOCK = re.compile(r"<(p|pre|ul|ol|table|blockquote|h\d)\b.*?</\1>\s*", re.DOTALL)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|(?<=[。！？])")
WORD = re.compile(r"<[^>]*>|[^\s\u3000-\u9fff\uff00-\uffef<>]+|[\u4e00-\u9fff]{2}")
LITERAL = r'<pre class="lit" lang="en" tabindex="0">\1'


@dataclass(frozen=True)
class Prose:
    """A section's stored HTML, and the other language's tag where it is in that."""

    html: str
    lang: str = ""


def section(record: Record, name: str) -> Prose:
    """A section, rendered and cleaned when the record was saved; log lines stay."""
    prose = stored(record, name)
    # As printed: English, and scrollable by keyboard.
    return Prose(LOG_FENCE.sub(LITERAL, prose.html), prose.lang)


def parted(whole: Prose, words: int) -> tuple[Prose, Prose]:
    """As many of its first blocks as have so many words, at least one; and the rest.

    A first paragraph that is longer is parted at a sentence.
    """
    if length(whole.html) <= words:
        return whole, Prose("", whole.lang)
    blocks = [found[0] for found in BLOCK.finditer(whole.html)]
    shown, left = "", words
    while blocks and length(blocks[0]) <= left:
        left -= length(blocks[0])
        shown += blocks.pop(0)
    if blocks and not shown:
        shown, blocks[0] = cut(blocks[0].strip(), words)
    rest = "".join(blocks)
    return Prose(shown, whole.lang), Prose(rest, whole.lang)


def length(html: str) -> int:
    return sum(not word.startswith("<") for word in WORD.findall(html))


def cut(paragraph: str, words: int) -> tuple[str, str]:
    """Two paragraphs of one; the first has whole sentences, and every tag in pairs."""
    for end in [found.end() for found in SENTENCE.finditer(paragraph)][::-1]:
        first = paragraph[:end]
        is_paired = first.count("<") - 1 == 2 * first.count("</")
        if first.startswith("<p>") and is_paired and length(first) <= words:
            return f"{first.strip()}</p>", f"<p>{paragraph[len(first) :]}"
    return paragraph, ""


def workaround(record: Record, name: str) -> Prose:
    return stored(record, "workarounds", name)


def stored(record: Record, *path: str) -> Prose:
    lang = current_lang()
    own = at(record.html.get(lang), *path)
    if own:
        return Prose(own)
    other = at(record.html.get(OTHER[lang]), *path)
    return Prose(other, HTML_TAG[OTHER[lang]] if other else "")


def at(value: object, *path: str) -> str:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def text(record: Record, field: str) -> tuple[str, str]:
    """A line of the record and, where it is in the other language, that one's tag."""
    lang = current_lang()
    own = record.text(field, lang)
    if own:
        return own, ""
    other = record.text(field, OTHER[lang])
    return other, HTML_TAG[OTHER[lang]] if other else ""
