"""What a process keeps of the database between requests, within bounds.

Threads may share what is kept: each reads an entry once, as another may drop it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def recall(kept: dict[K, V], keys: Iterable[K]) -> dict[K, V]:
    """Those that are kept, in the order of `keys`; they were asked for last now."""
    found: dict[K, V] = {}
    for key in keys:
        value = kept.pop(key, None)
        if value is not None:
            found[key] = kept[key] = value
    return found


def keep(kept: dict[K, V], more: Mapping[K, V], most: int) -> None:
    """Add to what is kept; of more than `most` goes what was not asked for longest."""
    kept |= more
    for key in list(islice(kept, max(0, len(kept) - most))):
        kept.pop(key, None)
