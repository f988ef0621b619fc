"""HTML of Markdown, made when a record is loaded and stored with it.

Articles are reviewed like code; all the same nothing of theirs becomes markup but what
is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping

import nh3
from markdown import Markdown
from markdown.extensions.fenced_code import FencedCodeExtension
from markdown.extensions.footnotes import FootnoteExtension
from markdown.extensions.sane_lists import SaneListExtension
from markdown.extensions.tables import TableExtension

from kb.choices import LANGS, SECTIONS
from kb.records.articles import split_workarounds
from kb.records.files import RecordFile
from kb.records.snippets import expanded

# Raise it when the pipeline changes: stored HTML of another version is made anew.
VERSION = 2
TAGS = {
    *("a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li"),
    *("ol", "p", "pre", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr"),
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

# By language and section, as a record's row keeps it.
Html = dict[str, dict[str, object]]


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


def render(markdown: str) -> str:
    """Safe HTML of one text."""
    return nh3.clean(
        build().convert(markdown),
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=keep_attribute,
        set_tag_attribute_values=FOCUSABLE,
        url_schemes={"http", "https", "mailto"},
        link_rel="nofollow ugc noopener",
    )


def sections_html(record: RecordFile) -> Html:
    """HTML by language and section; "workarounds" by name.

    "workaround" holds what stands before the first of them.
    """
    return {
        lang: article_html(record.articles[lang], record.snippets) for lang in LANGS
    }


def article_html(
    article: Mapping[str, str], snippets: Mapping[str, str]
) -> dict[str, object]:
    texts = {name: expanded(article[name], snippets) for name in SECTIONS}
    parts = split_workarounds(texts["workaround"])
    texts["workaround"] = parts.pop("", "")
    html: dict[str, object] = {name: render(text) for name, text in texts.items()}
    return html | {"workarounds": {name: render(text) for name, text in parts.items()}}
