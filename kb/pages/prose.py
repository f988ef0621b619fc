"""Prose of a record in the reader's language, as HTML."""

from __future__ import annotations

import re
from typing import Any

from kb.languages import current_lang
from kb.models import Record

LOG_FENCE = re.compile(r'<pre(?: tabindex="0")?>(<code class="language-log">)')
# What stands at the top of a section, and what of it counts as a word: two characters
# of Chinese are about one of English.
BLOCK = re.compile(r"<(p|pre|ul|ol|table|blockquote|h\d)\b.*?</\1>\s*", re.DOTALL)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|(?<=[。！？])")
WORD = re.compile(r"<[^>]*>|[^\s\u3000-\u9fff\uff00-\uffef<>]+|[\u4e00-\u9fff]{2}")
LITERAL = r'<pre class="lit" lang="en" tabindex="0">\1'


def section(record: Record, name: str) -> str:
    """A section, rendered and cleaned when the record was saved; log lines stay."""
    # As printed: English, and scrollable by keyboard.
    return LOG_FENCE.sub(LITERAL, stored(record).get(name, ""))


def parted(html: str, words: int) -> tuple[str, str]:
    """As many of its first blocks as have so many words, at least one; and the rest.

    A first paragraph that is longer is parted at a sentence.
    """
    if length(html) <= words:
        return html, ""
    blocks = [found[0] for found in BLOCK.finditer(html)]
    shown, left = "", words
    while blocks and length(blocks[0]) <= left:
        left -= length(blocks[0])
        shown += blocks.pop(0)
    if blocks and not shown:
        shown, blocks[0] = cut(blocks[0].strip(), words)
    return shown, "".join(blocks)


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


def workaround(record: Record, name: str) -> str:
    return str(stored(record).get("workarounds", {}).get(name, ""))


def stored(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = record.html.get(current_lang(), {})
    return found
