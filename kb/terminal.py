"""The language that commands speak: the terminal's, as LANG and its kin say."""

from __future__ import annotations

import os
from collections.abc import Mapping

from django.utils.translation import override

from kb.languages import DJANGO_LANG


def terminal_language(environ: Mapping[str, str] = os.environ) -> str:
    """Django's code of the terminal's language; English where it is neither."""
    values = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    chosen = next((value for value in values if value), "")
    return DJANGO_LANG["zh" if chosen.lower().startswith("zh") else "en"]


def in_terminal_language() -> override:
    """A context in which gettext answers in the terminal's language."""
    return override(terminal_language())
