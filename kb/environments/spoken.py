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
    WELL_KNOWN,
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
# "torch 2.1.0 works, 2.4.1 gives nan": another version, which has no name.
OTHER = re.compile(r"(?<![\w.-])v?[12]\.\d{1,2}(?:\.\d+)?(?![\w.%])", re.ASCII)
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
# "upgrading from torch 2.4 to 2.5.1", "torch 从 2.4 升级到 2.5.1": both, or the second.
KNOWN = rf"({'|'.join(sorted({*WELL_KNOWN, 'pytorch'}, key=len, reverse=True))})"
OLD = rf"(?:(?:from|从|由)\s?)?(?:{KNOWN}\s?(?:version\s|版本)?)?\s?({VERSION})"
CHANGED = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?:{KNOWN}\s?(?:的?版本\s?|version\s|(?:was\s|is\s)?[a-z]{{4,10}}ed\s)?)?"
    rf"(?:{OLD}\s?(?:to|->|=>|→|(?:更新|升级?|降低?|换|切换?|改)级?[到至为成回]了?)\s?"
    rf"|(?:upgraded|updated|moved|switched|migrated"
    r"|after (?:upgrading|updating|moving|switching|migrating))\s(?:(?:my|the|to)\s)?"
    r"|(?:升级?|更新|降级?)[到至成]了?\s?)"
    rf"(?:{KNOWN}\s?(?:version\s|版本)?)?(?:to\s)?({VERSION})(?![A-Za-z0-9_/%])",
    re.IGNORECASE,
)
# Else "2.1 to 2.5" is a range.
CHANGES = re.compile(
    r"\b(?:up|down)grad|\bupdat|\bmov(?:e|ing)|\bswitch|\bmigrat|\bbump|\bchang|\broll"
    r"|->|=>|→|[升降换改切更]",
    re.IGNORECASE,
)
BEFORE_CHARS = 40
# What came of it, in the same clause.
WENT_WELL = re.compile(
    r"\b(?:works?|worked|fine|ok|okay|normal(?:ly)?|fix(?:e[sd])?|solve[sd]?|resolve[sd]?"
    r"|gone|disappear\w*|vanish\w*|help(?:s|ed)|without"
    r"|no (?:more )?(?:nan|error|issue|problem)s?)\b"
    r"|正常|没问题|没有(?:问题|出现)|好了|解决|消失|恢复|不再",
    re.IGNORECASE,
)
DID_NOT = re.compile(
    r"n't|\bnot\b|\bno longer\b|\bstill\b|[不没未](?!再|出现|有|问题)|仍|还是"
)
OUTCOME_CHARS = 80
# "With torch 1.2 or later it is still nan" is no wish, but one version of several.
OPEN_ENDED = re.compile(r"以上|以下|\b(?:or|and) (?:later|newer|above|higher)\b", re.I)
STILL = re.compile(r"\b(?:still|too|also|as well)\b|依然|仍|还是|同样|也", re.I)


class Spoken(NamedTuple):
    """A package, and the words that follow it: "torch 2.5.1 sdpa nan"."""

    package: Package
    words: str

    @property
    def is_fine(self) -> bool:
        """The right one of two: "2.5.1 is fine, after upgrading to 2.6 nan"."""
        change = changed_in(f"{self.package.name} {self.words}"[:SENTENCE_CHARS])
        return went_well(self.words) and (any(change) or bool(OTHER.search(self.words)))


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
    if not may_name(line):
        return
    changed = list(changed_in(line[:SENTENCE_CHARS]))
    yield from changed
    line = CHANGED.sub(" ", line) if changed else line
    if SEVERAL.search(line):
        return
    fails_too = STILL.search(line)
    for clause in CLAUSE.split(line[:SENTENCE_CHARS]):
        wished = is_wish(clause) and not (fails_too and OPEN_ENDED.search(clause))
        if not (wished or ELSEWHERE.search(clause)):
            for package in in_prose(clause):
                if is_well_known(package.name):
                    yield replace(package, is_sure=False)


def changed_in(line: str) -> Iterator[Package]:
    """The version in which something is wrong, where one was changed for another.

    The new one; the old one, where all went well with the new.
    """
    for found in CHANGED.finditer(line):
        if not CHANGES.search(line, max(0, found.start() - BEFORE_CHARS), found.end()):
            continue
        before = re.findall(KNOWN, line[: found.start()], re.IGNORECASE)
        name = found[1] or found[2] or found[4] or "".join(before[-1:])
        after = line[found.end() :].lstrip(" ,，:：)）")[:OUTCOME_CHARS]
        version = found[3] if went_well(after) else found[5]
        if name and version:
            yield Package(name, version, is_sure=False)


def went_well(text: str) -> bool:
    clause = CLAUSE.split(text)[0]
    return bool(WENT_WELL.search(clause)) and not DID_NOT.search(clause)


def _is_listed(word: str) -> bool:
    return bool(LISTED.search(word)) or is_well_known(word)
