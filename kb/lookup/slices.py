"""Records whose repro fails as a report of the probe says: by the same operations.

A slice says which op made the value, and the ops before it that hold 0, an infinity or
NaN (portable.nan_probe.slices). Equal laws alone name no record: many programs divide
0 by 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from kb.search.reading.probe import Probe
from portable.nan_probe.known import RECORDS, is_telling

OPS = re.compile(r"-?\binf\b|\w+(?=\()")
# What is inf in forward divides by 0 in backward.
DIRECTION = "backward of "
# Two slices are alike if they share so much of what either says, and so much at all: an
# op that half of the records end in, as a division, is not enough.
LEAST, LEAST_OF_OTHER_LAW, LEAST_WORTH = 0.3, 0.5, 5.0


class Alike(NamedTuple):
    """`share` of what either slice says is in both, 0 to 1; `worth` of what is in both,
    by how rare it is; `ops` that are in both.
    """

    share: float
    worth: float
    ops: tuple[str, ...]


@lru_cache(maxsize=256)
def parts_of(text: str) -> tuple[str, ...]:
    """The ops of a slice, the last first, which counts twice; -inf and inf."""
    names = list(dict.fromkeys(OPS.findall(text)))
    return (f"{names[0]}:", *names)


@lru_cache(maxsize=1)
def rarity() -> dict[str, float]:
    """What each part is worth, by how few of the records have it."""
    count = Counter(part for text, _law in RECORDS.values() for part in parts_of(text))
    return {part: math.log(1 + len(RECORDS) / n) for part, n in count.items()}


def alike(probe: Probe | None) -> dict[str, Alike]:
    """Of each record whose slice resembles that of the report, by its id."""
    text, law = (probe.slice[1], probe.law[1]) if probe else ("", "")
    if not OPS.search(text):
        return {}
    found = {}
    for record, (other, its_law) in RECORDS.items():
        row = likeness(parts_of(text), parts_of(other))
        same = law == its_law or plain(text) == plain(other)
        least = LEAST if same else LEAST_OF_OTHER_LAW
        may = same or (is_telling(text) and is_telling(other))
        if may and row.share >= least and row.worth >= LEAST_WORTH:
            found[record] = row
    return found


def plain(text: str) -> str:
    return text.removeprefix(DIRECTION)


def likeness(own: tuple[str, ...], other: tuple[str, ...]) -> Alike:
    rare, most = rarity(), math.log(1 + len(RECORDS))
    shared = [part for part in own if part in other]
    worth = sum(map(rare.__getitem__, shared))
    share = worth / sum(rare.get(part, most) for part in {*own, *other})
    return Alike(share, worth, tuple(p for p in shared if not p.endswith(":")))


def fails_otherwise(record: str, probe: Probe | None) -> bool:
    """Whether its repro fails by another law, or where the report says: by no op."""
    if probe is None or record not in RECORDS or not probe.is_explained:
        return False
    return bool(probe.maker) or probe.law[1] != RECORDS[record][1]
