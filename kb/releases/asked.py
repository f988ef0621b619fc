"""Whether words ask about an upgrade of torch: "nan after upgrading to torch 2.13".

Every expression is bounded: the words come from a paste.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kb.releases import sides
from kb.releases.sides import Side

# Longer texts are logs, which are looked up for what they show.
MAX_WORDS = 2000
CHANGE = re.compile(
    r"\b(?:up|down)grad|\bupdat|\bbump|\bmigrat|\bswitch|\bmov(?:e|ing)|升级|升到|升至"
    r"|更新|降级|降到|换到|迁移",
    re.IGNORECASE,
)
DOWN = re.compile(r"downgrad|降级|降到", re.IGNORECASE)
VERSION = re.compile(
    r"(?<![A-Za-z0-9_.])v?([12]\.\d{1,2}(?:\.\d{1,2})?(?:[+-](?:cpu|cu\d{2,3}))?)(?![\d.]*\d)"
)
# Between two versions, and before the only one; what else names torch does not count.
TORCH = re.compile(r"py ?torch|torch|version|版本|==?", re.IGNORECASE)
TO = re.compile(r"(?:\bto|[-=]>|→|到|至|为)\s*$", re.IGNORECASE)
FROM = re.compile(r"(?:\bfrom|从|自)\s*$", re.IGNORECASE)
# Versions of these look like torch's.
OTHER = re.compile(
    r"\b(?:numpy|scipy|python|cuda|cudnn|triton|transformers|lightning|deepspeed"
    r"|accelerate|xformers|torchvision|torchaudio|flash[-_]attn|pandas|jax)\b[^\d\n]*$",
    re.IGNORECASE,
)


class Upgrade(NamedTuple):
    before: Side
    after: Side


def upgrade_in(words: str) -> Upgrade | None:
    """The two sides that the words name; of one alone, the release tested before it."""
    if len(words) > MAX_WORDS or "torch" not in words.lower():
        return None
    before, after = versions_in(words)
    if not (after and CHANGE.search(words)) or (DOWN.search(words) and not before):
        return None
    builds = sides.tested()
    last = sides.find(after, builds)
    if last is None:
        return None
    first = sides.find(before, builds) if before else sides.previous(last, builds)
    if first is None or first == last:
        return None
    return Upgrade(first, last) if first.builds or last.builds else None


def versions_in(words: str) -> tuple[str, str]:
    """(from, to) as written; "" where it is not said."""
    found = list(VERSION.finditer(words))
    gaps = [0, *(hit.end() for hit in found)]
    before = after = ""
    is_other = False
    for hit, start in zip(found, gaps, strict=False):
        gap = words[start : hit.start()]
        # Of "numpy from 1.26 to 2.0" both are numpy's.
        is_other = bool(OTHER.search(gap)) or (is_other and not TORCH.search(gap))
        if is_other:
            continue
        said = TORCH.sub(" ", gap).rstrip()
        if FROM.search(said):
            before = before or hit[1]
        elif TO.search(said):
            after = after or hit[1]
        elif not before and not after:
            before = hit[1]  # "2.5.1 to 2.13", "torch 2.5.1 → 2.13"
    return before, after
