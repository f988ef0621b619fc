"""What is documented of a version, in the reader's words."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from kb.choices import FIX_KINDS

WORDS = {
    "introduced": gettext_lazy("introduced"),
    "last_affected": gettext_lazy("last affected"),
    "end": gettext_lazy("end of the range"),
    "affected": gettext_lazy("listed as affected"),
    "not_affected": gettext_lazy("listed as not affected"),
}


def mark_words(kind: str) -> str:
    """A fix is called by its kind, never just fixed."""
    return str(FIX_KINDS.get(kind) or WORDS[kind])
