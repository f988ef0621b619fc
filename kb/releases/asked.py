"""Whether words ask what changes between two torch releases: "nan after 2.5.1 → 2.13".

Every expression is bounded: the words come from a paste.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kb.releases import sides
from kb.releases.sides import Side
from kb.versions.order import build_order, tested_builds

# Longer texts are logs, which are looked up for what they show.
MAX_WORDS = 2000
CHANGE = re.compile(
    r"\b(?:up|down)grad|\bupdat|\bbump|\bmigrat|\bswitch|\bmov(?:e|ing)|升级|升到|升至"
    r"|更新|降级|降到|换到|迁移",
    re.IGNORECASE,
)
# Of two versions these speak of a change as well.
BETWEEN = re.compile(
    r"\bvs\b|\bversus|\bcompar|\bdiffer|\bbetween\b|\bchang|\bregress|\bbroke|\bwork(?:s|ed)"
    r"|\bfine\b|\bused to\b|\bgo(?:es|ing|ne)?\b|\bwent\b|\bcom(?:e|ing)\b|\binstead\b"
    r"|\bsince\b|\bafter\b|\bbefore\b|\bnewer\b|\bolder\b|[-=]>|→|区别|差异|差别|不同"
    r"|不一样|比较|对比|相比|变化|改动|改用|正常|没问题|没有问题|以前|之前|之后|以后|原来|换|回退",
    re.IGNORECASE,
)
DOWN = re.compile(r"downgrad|roll(?:ed|ing)? back|降级|降到|回退", re.IGNORECASE)
VERSION = re.compile(
    r"(?<![A-Za-z0-9_.])v?([12]\.\d{1,2}(?:\.\d{1,2})?(?:[+-](?:cpu|cu\d{2,3}))?)(?![\d.]*\d)"
)
# Between two versions, and before the only one; what else names torch does not count.
TORCH = re.compile(r"py ?torch|torch|version|版本|==?", re.IGNORECASE)
TO = re.compile(r"(?:\bto|[-=]>|→|到|至|为)\s*$", re.IGNORECASE)
FROM = re.compile(r"(?:\bfrom|从|自|由)\s*$", re.IGNORECASE)
# Versions of these look like torch's.
OTHER = re.compile(
    r"\b(?:numpy|scipy|python|cuda|cudnn|triton|transformers|lightning|deepspeed"
    r"|accelerate|xformers|torchvision|torchaudio|flash[-_]attn|pandas|jax)\b[^\d\n]*$"
    r"|(?<![\w-])(?!torch=)[a-z][\w-]{0,40}==$",
    re.IGNORECASE,
)


class Upgrade(NamedTuple):
    before: Side
    after: Side


def upgrade_in(words: str) -> Upgrade | None:
    """The two sides that the words name; of one alone, the release tested before it."""
    if len(words) > MAX_WORDS:
        return None
    before, after = versions_in(words)
    words_of_change = (CHANGE, DOWN, BETWEEN) if before else (CHANGE,)
    if not after or not any(word.search(words) for word in words_of_change):
        return None
    if DOWN.search(words) and not before:
        return None
    builds = tested_builds()
    last = sides.find(after, builds)
    if last is None:
        return None
    first = sides.find(before, builds) if before else sides.previous(last, builds)
    if first is None or first == last:
        return None
    ran = [side for side in (first, last) if side.builds]
    # Without its name only releases that were run are taken for torch's.
    is_torch = "torch" in words.lower() or len(ran) == 2
    return Upgrade(first, last) if ran and is_torch else None


def versions_in(words: str) -> tuple[str, str]:
    """(from, to) as written; "" where it is not said.

    Two that no word orders go from the older to the newer, or down where that is said.
    """
    before = after = ""
    others: list[str] = []
    for version, gap in of_torch(words):
        said = TORCH.sub(" ", gap).rstrip()
        if FROM.search(said):
            before = before or version
        elif TO.search(said):
            after = after or version
        elif version not in others:
            others.append(version)
    others.sort(key=lambda raw: build_order(raw, raw), reverse=bool(DOWN.search(words)))
    if not before and others and (after or len(others) > 1):
        before = others.pop(0)
    if not after and others and before:
        after = others.pop()
    return before, after


def of_torch(words: str) -> Iterator[tuple[str, str]]:
    """Each version of torch with what stands before it."""
    start, is_other = 0, False
    for hit in VERSION.finditer(words):
        gap = words[start : hit.start()]
        start = hit.end()
        # Of "numpy from 1.26 to 2.0" both are numpy's.
        is_other = bool(OTHER.search(gap)) or (is_other and not TORCH.search(gap))
        if not is_other:
            yield hit[1], gap
