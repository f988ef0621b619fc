"""Numbered pages of a list: which rows, and what leads to the others. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """The rows `first` to `last`, from 1, of `found`; 0 to 0 of none."""

    first: int
    last: int
    found: int
    previous: int | None
    next: int | None

    @property
    def rows(self) -> slice:
        return slice(max(self.first - 1, 0), self.last)

    @property
    def is_whole(self) -> bool:
        return self.previous is None and self.next is None


def window(asked: str, found: int, size: int) -> Window:
    """The page that ?page= names; what is no page of this list is the nearest one."""
    last_page = max(1, -(-found // size))
    # Cut, as int() refuses thousands of digits.
    number = int(asked[:9]) if asked.isascii() and asked.isdigit() else 1
    number = min(max(number, 1), last_page)
    first = (number - 1) * size + 1 if found else 0
    return Window(
        first,
        min(number * size, found),
        found,
        number - 1 if number > 1 else None,
        number + 1 if number < last_page else None,
    )
