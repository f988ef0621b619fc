"""Draws a card: 1,200 by 630 pixels, as OpenGraph and Twitter want them, as a PNG."""

from __future__ import annotations

import io
import re
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from kb.syndication.badges.drawing import COLOURS, NEUTRAL, NO_RESULT, SHAPES
from kb.syndication.cards.content import Card, Row

FONT = Path(__file__).with_name("font") / "NotoSansCJKsc-Bold.subset.woff2"
SIZE = WIDTH, HEIGHT = 1200, 630
MARGIN = 72
INNER = WIDTH - 2 * MARGIN
# The colours of the light pages (static/css/base.css).
PAGE, INK, GREY, LINE = "#ffffff", "#15181d", "#5f6873", "#dfe3e8"
SMOOTH = 4  # shapes are drawn so many times larger and made small
# (size, most lines) of a title, until it fits.
TITLES = ((60, 3), (50, 3), (42, 4))
TITLE_TOP, ROWS_TOP, LEGEND_TOP = 132, 392, 548
# Newer releases are what is asked about: of more than this the oldest are left out.
MOST_SQUARES = 18
SQUARE, GAP = 62, 6
# A word with the signs that may not stand at the start of a line, or one Chinese
# character with them.
TOKEN = re.compile(
    r"[（「“《【]*(?:[^\s\u2e80-\uffff]+|[\u2e80-\uffff])[，。、；：？！）」”》】…]*|\s+"
)
KEPT = 128


@lru_cache(maxsize=KEPT)
def png(card: Card) -> bytes:
    """The file; drawing takes some 50 ms, and a card is asked for by many at once."""
    image = Image.new("RGB", SIZE, PAGE)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, WIDTH, 13), fill=INK)
    draw.text((MARGIN, 56), f"{card.record} · {card.symptom}", GREY, font(32))
    draw_brand(draw, card.site)
    draw_title(draw, title_of(card))
    if card.said:
        for number, line in enumerate(wrapped(card.said, 34)):
            draw.text((MARGIN, ROWS_TOP + 40 + number * 48), line, INK, font(34))
    else:
        draw_rows(image, draw, card.rows)
        draw_legend(image, draw, card)
    file = io.BytesIO()
    # Few colours: a palette makes the file a third as large.
    image.quantize(128).save(file, "PNG", optimize=True)
    return file.getvalue()


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONT, size, layout_engine=ImageFont.Layout.BASIC)


@cache
def can_draw(character: str) -> bool:
    """Whether the font has it: what it lacks looks like what no font has."""
    small = font(16)
    shown = bytes(small.getmask(character))
    return character.isspace() or shown != bytes(small.getmask("\uffff"))


def title_of(card: Card) -> str:
    """In the page's language, else in the other; no sign is ever drawn as a box."""
    for title in card.titles:
        if title and all(map(can_draw, title)):
            return title
    return "".join(filter(can_draw, card.titles[0])).strip()


def draw_brand(draw: ImageDraw.ImageDraw, site: str) -> None:
    """The bits of a NaN in bfloat16, as in the head of pages, and the site's name."""
    left = WIDTH - MARGIN - font(32).getlength(site)
    draw.text((left, 56), site, INK, font(32))
    start, height, step = left - 130, 36, 2.2
    lit = {5, 8, 11, 14, 17, 20, 23, 26, 31}
    for at in (0, *sorted(lit), 34, 37, 40, 43, 46, 49):
        top = 62 if at in lit else 62 + height * 11 / 16
        x = start + at * step
        draw.rectangle((x, top, x + 2 * step - 1, 62 + height), fill=INK)


def draw_title(draw: ImageDraw.ImageDraw, title: str) -> None:
    for size, most in TITLES:
        lines = wrapped(title, size)
        if len(lines) <= most:
            break
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1].rstrip() + " …"]
    for number, line in enumerate(lines):
        draw.text((MARGIN, TITLE_TOP + number * size * 1.28), line, INK, font(size))


def wrapped(text: str, size: int) -> list[str]:
    """Lines that fit; a word that is longer than a line is cut."""
    lines = [""]
    for token in TOKEN.findall(text):
        if length(lines[-1] + token, size) <= INNER:
            lines[-1] += token
            continue
        while length(token, size) > INNER:
            fits = [
                at
                for at, start in enumerate(accumulate(token), 1)
                if length(start, size) <= INNER
            ][-1]
            lines, token = [*lines, token[:fits]], token[fits:]
        lines.append(token.lstrip())
    return [line.rstrip() for line in lines if line.strip()]


def length(text: str, size: int) -> float:
    return font(size).getlength(text)


def draw_rows(
    image: Image.Image, draw: ImageDraw.ImageDraw, rows: tuple[Row, ...]
) -> None:
    """One row of squares, or two with the name of their device before them."""
    left = MARGIN + (76 if len(rows) > 1 else 0)
    height = SQUARE if len(rows) == 1 else 44
    for number, row in enumerate(rows):
        top = ROWS_TOP + (34 if len(rows) == 1 else 8 + number * 72)
        shown = row.squares[-MOST_SQUARES:]
        width = min(92, (WIDTH - MARGIN - left + GAP) / max(8, len(shown)) - GAP)
        if len(rows) > 1:
            draw.text((MARGIN, top + 4), row.device, GREY, font(26))
        for at, square in enumerate(shown):
            x = left + at * (width + GAP)
            middle = x + width / 2
            draw.text((middle, top - 6), square.release, GREY, font(17), anchor="ms")
            box = (x, top, x + width, top + height)
            draw.rectangle(box, fill=COLOURS.get(square.verdict, NEUTRAL))
            stamp(image, square.verdict, (middle, top + height / 2), 22, PAGE)


def draw_legend(image: Image.Image, draw: ImageDraw.ImageDraw, card: Card) -> None:
    """In which releases the bug is, then the other ranges that have room."""
    x: float = MARGIN
    for verdict, words in card.ranges:
        if x + 36 + length(words, 26) > WIDTH - MARGIN:
            return
        colour = COLOURS.get(verdict, NEUTRAL)
        stamp(image, verdict, (x + 12, LEGEND_TOP + 20), 24, colour)
        draw.text((x + 36, LEGEND_TOP), words, INK, font(26))
        x += 36 + length(words, 26) + 40


def stamp(
    image: Image.Image,
    verdict: str,
    middle: tuple[float, float],
    side: int,
    colour: str,
) -> None:
    corner = round(middle[0] - side / 2), round(middle[1] - side / 2)
    box = (*corner, corner[0] + side, corner[1] + side)
    image.paste(colour, box, mask(verdict, side))


@cache
def mask(verdict: str, side: int) -> Image.Image:
    large = side * SMOOTH
    corners = [
        tuple(float(part) * large / 100 for part in corner.split(","))
        for corner in SHAPES.get(verdict, NO_RESULT).split()
    ]
    drawn = Image.new("L", (large, large))
    ImageDraw.Draw(drawn).polygon(corners, fill=255)
    return drawn.resize((side, side), Image.Resampling.LANCZOS)
