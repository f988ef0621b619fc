"""Substring search over many lines at once. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class LineSearch:
    """Lines joined into one text: one `str.find` looks through all of them."""

    def __init__(self, lines: list[str]) -> None:
        self.text = "\n".join(lines)
        self.starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def find(self, substring: str) -> int | None:
        """The number, from 0, of the first line that contains `substring`."""
        return next(iter(self.find_any([substring], 1)), None)

    def find_any(self, substrings: Iterable[str], limit: int) -> list[int]:
        """At most `limit` numbers of lines that contain any of the substrings."""
        numbers: set[int] = set()
        for substring in substrings:
            at = self.text.find(substring) if substring else -1
            while at >= 0 and len(numbers) < limit:
                number = bisect_right(self.starts, at) - 1
                numbers.add(number)
                at = self.text.find(substring, self.starts[number + 1])
        return sorted(numbers)
