"""Names of events with `*` for any, and the words that a source must have for them.

A `*` alone is the operator: as "any event" it would say nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import List, Pattern, Sequence, Set, Tuple

# Where torch has the functions of tensors.
MODULES = ("torch.", "torch.nn.functional.", "torch.special.", "torch.linalg.")


def names_of(patterns: Sequence[str]) -> Pattern[str]:
    """Names with `*` for any, alone itself; nothing at all for none.

    `~log` is the function and the method: torch.log, .log, .log_.
    """
    return compiled(tuple(patterns))


@lru_cache(maxsize=1000)
def compiled(patterns: Tuple[str, ...]) -> Pattern[str]:
    return re.compile("|".join(map(translated, patterns)) if patterns else r"(?!)")


def translated(pattern: str) -> str:
    if pattern.startswith("~"):
        word = re.escape(pattern[1:])
        modules = "|".join(map(re.escape, MODULES))
        return r"(?:(?:%s)%s|\.%s_?)\Z" % (modules, word, word)
    # "[for]" and "=[]" mean themselves.
    parts = [re.escape(part) for part in pattern.split("*")]
    if pattern in ("*", "**"):
        return re.escape(pattern) + r"\Z"
    return "(?:%s)\\Z" % ".*".join(parts)


def words_of(patterns: Sequence[str]) -> List[str]:
    """The last word of each name, with its `*`; empty where one has none."""
    words = []
    for pattern in patterns:
        parts = [part for part in re.split(r"[^\w*]+", pattern) if part.strip("*")]
        if not parts:
            return []
        words.append(parts[-1])
    return list(dict.fromkeys(words))


def exact(words: List[str]) -> List[str]:
    """The words, or none where one has a `*`."""
    return [] if any("*" in word for word in words) else words


def is_written(word: str, written: Set[str]) -> bool:
    if "*" not in word:
        return word in written
    start = word.partition("*")[0]
    return any(one.startswith(start) for one in written)
