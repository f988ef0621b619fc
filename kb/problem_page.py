"""Pages that explain the API's problem types."""

from __future__ import annotations

from kb.problems import KINDS, Kind


def find(slug: str) -> Kind | None:
    return KINDS.get(slug.replace("-", "_"))
