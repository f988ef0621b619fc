"""Addresses of upstream threads named in short, as owner/name#123."""

from __future__ import annotations

import re

THREAD = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


def alias_url(alias: str) -> str:
    """The thread's page; "" for an alias that names no GitHub thread."""
    found = THREAD.fullmatch(alias)
    return f"https://github.com/{found[1]}/issues/{found[2]}" if found else ""
