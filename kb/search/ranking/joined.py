"""Many short texts searched as one. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Joined:
    """The lines of a log, or what is left of each, in their order."""

    def __init__(self, texts: list[str]) -> None:
        self.text = "\n".join(texts)
        self.starts = list(accumulate((len(text) + 1 for text in texts), initial=0))

    def find(self, text: str) -> int | None:
        """The number of the first text that holds `text`."""
        at = self.text.find(text) if text else -1
        return None if at < 0 else bisect_right(self.starts, at) - 1

    def all_with(self, wanted: Iterable[str], limit: int) -> list[int]:
        """The first `limit` texts with any of the wanted ones."""
        found: set[int] = set()
        for text in wanted:
            at = self.text.find(text) if text else -1
            while at >= 0 and len(found) < limit:
                number = bisect_right(self.starts, at) - 1
                found.add(number)
                at = self.text.find(text, self.starts[number + 1])
        return sorted(found)
