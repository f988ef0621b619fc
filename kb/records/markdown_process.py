"""Markdown to safe HTML, as a process of its own: texts in, one result each out.

Python-Markdown is quadratic on some inputs and a process can be stopped. Started
by `kb.records.rendering` with the seconds of processor time that each may take; reads
one JSON string per line and answers each with one.
"""

from __future__ import annotations

import json
import resource
import signal
import sys

import nh3
from markdown import Markdown
from markdown.extensions.fenced_code import FencedCodeExtension
from markdown.extensions.footnotes import FootnoteExtension
from markdown.extensions.sane_lists import SaneListExtension
from markdown.extensions.tables import TableExtension

MEMORY_BYTES = 1 << 30
TAGS = {
    "a",
    "blockquote",
    "br",
    "code",
    "div",
    "em",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
}
ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "td": {"align"},
    "th": {"align"},
}
# What scrolls sideways on a phone must be reachable by keyboard.
FOCUSABLE = {"pre": {"tabindex": "0"}}
LANGUAGE_PREFIX = "language-"


def build() -> Markdown:
    """The converter: no raw HTML, no attributes, no tables of contents."""
    converter = Markdown(
        extensions=[
            FencedCodeExtension(),
            TableExtension(use_align_attribute=True),
            FootnoteExtension(BACKLINK_TEXT="", BACKLINK_TITLE=""),
            SaneListExtension(),
        ]
    )
    converter.preprocessors.deregister("html_block")
    converter.inlinePatterns.deregister("html")
    return converter


def keep_attribute(tag: str, attribute: str, value: str) -> str | None:
    """Drop links into the page, whose ids are gone, and classes but languages."""
    if attribute == "class":
        word = value.removeprefix(LANGUAGE_PREFIX)
        plain = word != value and word.isascii() and word.isalnum()
        return value if plain else None
    if attribute == "href" and value.startswith("#"):
        return None
    return value


def to_html(markdown: str) -> str:
    return nh3.clean(
        build().convert(markdown),
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=keep_attribute,
        set_tag_attribute_values=FOCUSABLE,
        url_schemes={"http", "https", "mailto"},
        link_rel="nofollow ugc noopener",
    )


def main(cpu_s: float) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for line in sys.stdin:
        # The signal that comes then ends this process.
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        sys.stdout.write(json.dumps(to_html(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
