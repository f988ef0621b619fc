"""What a revision changed, in templates."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from kb.publishing.revisions import Piece

register = template.Library()
MARKUP = {
    "same": "{}",
    "added": "<ins>{}</ins>",
    "removed": "<del>{}</del>",
    "skipped": '<span class="skipped">{}\n</span>',
}


@register.filter
def marked(pieces: Iterable[Piece]) -> SafeString:
    """The text with what came and went marked, for a <pre>."""
    return format_html_join(
        "", "{}", ((format_html(MARKUP[piece.kind], words(piece)),) for piece in pieces)
    )


def words(piece: Piece) -> str:
    if piece.kind != "skipped":
        return piece.text
    text = ngettext("… %(n)s line as before", "… %(n)s lines as before", piece.lines)
    return text % {"n": piece.lines}
