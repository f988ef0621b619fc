"""Whether the words of a message stand together in a line, or strewn over it. Pure."""

from __future__ import annotations

import re
from collections import Counter

WORD = re.compile(r"[^\W\d_]{2,}")
# What varies in a message may be longer in one line than in the other.
STRETCH, SLACK = 1.5, 3


def is_scattered(line: str, signature: str) -> bool:
    """The words that the two share take much more room in the line.

    So does a short message whose every word stands somewhere in a long other one.
    """
    wanted = words(signature)
    return shortest_run(words(line), set(wanted)) > STRETCH * len(wanted) + SLACK


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def shortest_run(line: list[str], wanted: set[str]) -> int:
    """How many words of the line hold all of these that stand in it; 0 for none."""
    shared = wanted.intersection(line)
    held: Counter[str] = Counter()
    shortest = first = 0
    for last, word in enumerate(line):
        if word in shared:
            held[word] += 1
        while shared and len(held) == len(shared):
            length = last - first + 1
            shortest = min(shortest, length) if shortest else length
            held[line[first]] -= 1
            held += Counter()  # what is left at zero goes
            first += 1
    return shortest
