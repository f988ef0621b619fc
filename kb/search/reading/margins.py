"""What stands before each line of pasted code: its number, a diff's sign, a bar.

Taken off where the lines are code without it: a log may number its lines, too.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator

from kb.search.reading.cleaning import CleanLines
from kb.search.reading.parts import MAX_LINES, Kind, is_statement, split_parts

Lines = list[tuple[int, str]]
FEWEST = 2
# Of the lines without their margin so many must be code.
CODE_SHARE = 0.6
NUMBER = re.compile(r"[ \t]{0,8}(\d{1,6})(?:[ \t]?[:|│.)](?!\S)|[ \t]|$)")
BAR = re.compile(r"[ \t]{0,8}[|│┃](?: |$)")
SIGN = re.compile(r"[-+ ]|@@ ")
HEADER = re.compile(r"@@ |diff --git |index [0-9a-f]{6}|(?:---|\+\+\+)(?: |$)")
# Jupyter numbers the source round the line that failed.
ARROW = re.compile(r"\s*-{1,8}>\s?\d")


def without_margins(lines: Lines) -> Lines:
    """The lines, those of code that has a margin without it; none is left out."""
    for runs, take in ((barred, unbarred), (numbered, unnumbered), (signed, unsigned)):
        found = list(lines)
        for first, last in runs([text for _number, text in lines[:MAX_LINES]]):
            texts = take([text for _number, text in lines[first:last]])
            numbers = [number for number, _text in lines[first:last]]
            piece = list(zip(numbers, dedented(texts), strict=True))
            if is_mostly_code(piece):
                found[first:last] = piece
        lines = found
    return lines


def barred(texts: list[str]) -> Iterator[tuple[int, int]]:
    return runs_of(texts, lambda text: bool(BAR.match(text)))


def numbered(texts: list[str]) -> Iterator[tuple[int, int]]:
    """Runs in which each number is the one before and one more."""
    first, before = 0, None
    for at, text in enumerate([*texts, ""]):
        found = NUMBER.match(text)
        number = int(found[1]) if found else None
        if before is not None and number == before + 1:
            before = number
            continue
        beside = [*texts[max(0, first - 1) : first], text]
        if at - first >= FEWEST and not any(map(ARROW.match, beside)):
            yield first, at
        first, before = at, number


def signed(texts: list[str]) -> Iterator[tuple[int, int]]:
    """Runs that begin with a sign and have more, or say where in the file they are."""
    for first, last in runs_of(texts, lambda text: not text or bool(SIGN.match(text))):
        signs = [at for at in range(first, last) if texts[at][:1] in ("+", "-", "@")]
        if len(signs) >= FEWEST:
            yield signs[0], last


def runs_of(texts: list[str], fits: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    first = 0
    for at, text in enumerate([*texts, "."]):
        if at < len(texts) and fits(text):
            continue
        if at - first >= FEWEST:
            yield first, at
        first = at + 1


def unbarred(texts: list[str]) -> list[str]:
    return [BAR.sub("", text, count=1).rstrip(" |│┃") for text in texts]


def unnumbered(texts: list[str]) -> list[str]:
    return [NUMBER.sub("", text, count=1) for text in texts]


def unsigned(texts: list[str]) -> list[str]:
    """As the file is after the change, if lines were added."""
    gone = ("-",) if any(text.startswith("+") for text in texts) else ()
    return ["" if is_left_out(text, gone) else text[1:] for text in texts]


def is_left_out(text: str, gone: tuple[str, ...]) -> bool:
    return bool(HEADER.match(text)) or text[:1] in gone


def dedented(texts: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(texts).expandtabs(4)).split("\n")


def is_mostly_code(lines: Lines) -> bool:
    written = [text for _number, text in lines if text.strip()]
    if not any(is_statement(text.strip()) for text in written):
        return False
    code = sum(
        len([n for n, text in lines if part.first <= n <= part.last and text.strip()])
        for part in split_parts(lines, CleanLines())
        if part.kind == Kind.CODE
    )
    return code >= CODE_SHARE * len(written)
