"""Packages before a few words, as people type them: "torch 2.5.1 sdpa nan". Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from kb.environments.package_lines import NAME, VERSION, Package, is_well_known

# A package with words behind it, and what a list has there instead.
BEGINNING = re.compile(
    rf"\s*({NAME})(?:\s?={{2,3}}\s?|[ \t]+)({VERSION})[:,;，：；]?[ \t]+"
    rf"((?![/(;#\\])[^\s=].*)"
)
LISTED = re.compile(
    r"[\d/=<>]|^(?:pypi|pip|conda|conda-forge|defaults|main|pytorch|nvidia|intel"
    r"|anaconda|huggingface|editable|and|with)$"
)
MAX_LINES = 3


class Spoken(NamedTuple):
    """A package, and the words that follow it: "torch 2.5.1 sdpa nan"."""

    package: Package
    words: str


def spoken_of(text: str) -> list[Spoken]:
    """In few lines, packages that begin one and are no list, as words follow.

    In a list a build, a channel or a path may follow, and no other word.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    begun = map(BEGINNING.match, lines if len(lines) <= MAX_LINES else ())
    return [
        Spoken(Package(match[1], match[2]), match[3])
        for match in begun
        if match
        and is_well_known(match[1])
        and not all(map(_is_listed, match[3].split()))
    ]


def _is_listed(word: str) -> bool:
    return bool(LISTED.search(word)) or is_well_known(word)
