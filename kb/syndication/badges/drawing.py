"""A badge: two fields with a text each, drawn as an SVG; colours, shapes, widths."""

from __future__ import annotations

from dataclasses import dataclass

from kb.choices import Verdict

COLOURS: dict[str, str] = {
    Verdict.BUG_PRESENT: "#b3261e",
    Verdict.BUG_ABSENT: "#0b5cad",
    Verdict.ERROR: "#5b4a8a",
}
NEUTRAL = "#57606a"
# Corners in hundredths of a square, as the pages clip them (static/css/verdicts.css).
SHAPES: dict[str, str] = {
    Verdict.BUG_PRESENT: "15,0 50,35 85,0 100,15 65,50 100,85 85,100 50,65 15,100 0,85 "
    "35,50 0,15",
    Verdict.BUG_ABSENT: "0,54 13,38 37,64 86,6 100,20 38,94",
    Verdict.NOT_APPLICABLE: "0,40 100,40 100,60 0,60",
}
NO_RESULT = "50,2 100,98 0,98"
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
