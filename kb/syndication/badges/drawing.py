"""A badge: two fields with a text each, drawn as an SVG."""

from __future__ import annotations

from dataclasses import dataclass

from kb.choices import Verdict

COLOURS: dict[str, str] = {
    Verdict.BUG_PRESENT: "#b3261e",
    Verdict.BUG_ABSENT: "#0b5cad",
    Verdict.ERROR: "#5b4a8a",
}
NEUTRAL = "#57606a"
# A copy may be kept for so long.
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


def width(text: str) -> int:
    """Of the text with its margins; fonts differ, and the text is made to fit."""
    return round(sum(WIDE if ord(c) > 0x2E7F else NARROW for c in text)) + 2 * PADDING
