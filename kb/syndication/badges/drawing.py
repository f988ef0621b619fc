"""A badge: two fields with a text each, as an SVG or as shields.io draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kb.choices import Verdict

COLOURS: dict[str, str] = {
    Verdict.BUG_PRESENT: "#b3261e",
    Verdict.BUG_ABSENT: "#0b5cad",
    Verdict.ERROR: "#5b4a8a",
}
NEUTRAL = "#57606a"
# A copy may be kept for so long; shields.io takes no less.
FRESH_S = 300
PADDING = 8
NARROW, WIDE = 6.6, 11


@dataclass(frozen=True)
class Badge:
    """`left` names what was asked, `right` is the answer in words.

    `is_refusal`: what was asked cannot be answered, and `right` says what is missing.
    """

    left: str
    right: str
    colour: str = NEUTRAL
    is_refusal: bool = False

    @property
    def left_width(self) -> int:
        return width(self.left)

    @property
    def right_width(self) -> int:
        return width(self.right)

    @property
    def whole_width(self) -> int:
        return self.left_width + self.right_width

    @property
    def left_text(self) -> int:
        return self.left_width - 2 * PADDING

    @property
    def right_start(self) -> int:
        return self.left_width + PADDING

    @property
    def right_text(self) -> int:
        return self.right_width - 2 * PADDING

    def for_shields(self) -> dict[str, Any]:
        """As https://shields.io/badges/endpoint-badge reads it."""
        return {
            "schemaVersion": 1,
            "label": self.left,
            "message": self.right,
            "color": self.colour,
            "isError": self.is_refusal,
            "cacheSeconds": FRESH_S,
        }


def width(text: str) -> int:
    """Of the text with its margins; fonts differ, and the text is made to fit."""
    return round(sum(WIDE if ord(c) > 0x2E7F else NARROW for c in text)) + 2 * PADDING
