"""Slugs of torch builds in claims: a claim about a build that cannot exist is never
verified by anything, and nobody notices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from django.utils.translation import gettext as _

from kb.records.facts import Facts, rows

# As the harness makes them of a version: "2.13.0-cpu", "2.6.0a0-df5bbc09d1.nv24.12".
WHOLE = re.compile(r"\d+\.\d+[a-z0-9.]*-[a-z0-9][a-z0-9._-]*")
EVERY = "*"
MOST_NAMED = 5


def known_builds(root: Path) -> set[str]:
    """The builds that evidence below these record folders is of, by its file names."""
    stems = (path.stem for path in root.glob("*/evidence/*.json"))
    return {stem.partition("-")[2] for stem in stems}


def slug_problems(facts: Facts, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """(key, message) of each build in a claim that no torch can have the name of."""
    for path, claim in rows(facts, "claim"):
        for position, slug in enumerate(claim.get("builds", [])):
            if slug == EVERY or slug in known or WHOLE.fullmatch(slug):
                continue
            message = _(
                "no build is called %(slug)s: write version and variant, "
                "such as %(example)s"
            )
            values = {"slug": repr(slug), "example": examples(slug, known)}
            yield f"{path}.builds[{position}]", message % values


def examples(slug: str, known: Collection[str]) -> str:
    """Builds of that version that there is evidence of, else what one would be."""
    alike = sorted(name for name in known if name.startswith(f"{slug}-"))
    return ", ".join(alike[:MOST_NAMED]) or "2.13.0-cpu"
