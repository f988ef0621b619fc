"""Places that an author still has to fill in: `TODO`, and names such as `todo_name`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from django.utils.translation import gettext as _

from kb.records.articles import at_line

# Identifiers have no capitals, so they have a mark of their own.
OPEN_PLACE = re.compile(r"(?<![A-Za-z0-9_])(?:TODO(?![A-Za-z0-9_])|todo_[a-z]+)")


def open_places(files: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    """(file, line, its text) of everything that is still to be written."""
    for name, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if OPEN_PLACE.search(line):
                yield name, number, line.strip()


def unfinished(files: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(file, key, message) of the same, as a published record must not have them."""
    for name, number, text in open_places(files):
        message = _("still to be written, so it cannot be published: %s") % text[:80]
        yield name, at_line(number), message
