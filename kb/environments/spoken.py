"""Packages that a person's words name: "torch 2.5.1 sdpa nan", "I use torch 2.5.1 and
an A100". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from kb.environments.package_lines import (
    NAME,
    SENTENCE_CHARS,
    VERSION,
    Package,
    in_prose,
    is_well_known,
    is_wish,
    may_name,
)

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
CLAUSE = re.compile(r"[;；。，!！]|[,.?]\s")
# Versions in a row, of which one has the name: "PyTorch 2.1.0, 2.2.0 and 2.3.0".
SEVERAL = re.compile(
    r"(?:[,/、和或]|\b(?:and|or|to|vs\.?)\s|->|→)\s*v?\d\.\d{1,2}(?:\.\d+)?(?![\w%])"
)
# A clause about a version that is not the writer's own, or where all is well.
ELSEWHERE = re.compile(
    r"\b(?:from (?:py)?torch|than|works?|worked|fine|ok|okay|correct(?:ly)?"
    r"|normal(?:ly)?|others?|previous(?:ly)?|earlier|old|different|both|versions|docs?|documentation"
    r"|no (?:nans?|issues?|problems?|errors?))\b"
    r"|(?:n't|\bnot) (?:happen|occur|reproduce|appear|see|in|on|with)\b"
    r"|正常|没问题|没有|不会|从|其他|其它|旧|文档|官方|都",
    re.IGNORECASE,
)


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


def stated_in(line: str) -> Iterator[Package]:
    """What a sentence says is installed: not what it wishes or compares with."""
    if not may_name(line) or SEVERAL.search(line):
        return
    for clause in CLAUSE.split(line[:SENTENCE_CHARS]):
        if not (is_wish(clause) or ELSEWHERE.search(clause)):
            for package in in_prose(clause):
                if is_well_known(package.name):
                    yield replace(package, is_sure=False)


def _is_listed(word: str) -> bool:
    return bool(LISTED.search(word)) or is_well_known(word)
