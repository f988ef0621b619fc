"""The lines of a log that are read: all of a short one, the ends of a long one.

A pasted log is cut in its middle; a stream of any size also keeps, of its middle, the
lines that complain, so that memory is bounded and nothing telling is lost.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

HEAD_LINES = 1000
TAIL_LINES = 3000
LINE_CHARS = 4000
# Of the middle of a stream: lines that complain, one of each kind.
MIDDLE_LINES = 2000
# What a progress bar overwrote on one line: the first and the last of it.
FIRST_PIECES, LAST_PIECES = 20, 200
CHUNK = 65536
# In lower case; every branch begins with a letter, which makes the search quick.
COMPLAINS = re.compile(
    r"error|warning|exception|unsupported|overflow|underflow|non-?finite|mismatch|"
    r"traceback|assert|fail|nan(?![a-z])|inf(?<![a-z]inf)(?![a-z])|gb\d{4}|_status_|"
    r"xid|misaligned|illegal|does not|not require|溢出|不匹配|失败|断言"
)
NOT_LETTERS = re.compile(r"[\W\d_]+")
# One log record as JSON holds its traceback with the line ends written out.
ESCAPED_END = re.compile(r"\\r?\\n|\\n")
HOLDS_LINES = re.compile(r"\\n(?:Traceback|  File|\w[\w.]{0,80}(?:Error|Exception):)")
# Steps in one list, as `print(trainer.state.log_history)` has them.
JSON_ROWS = re.compile(r"(?<=\}),\s*(?=\{)")
OTHER_ENDS = re.compile("[\x85\u2028\u2029]")
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass
class SelectedLines:
    """Numbered lines (from 1) as pasted, and how much was left out."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    cut_lines: int = 0
    cut_bytes: int = 0

    def add(self, number: int, line: str) -> None:
        """One line, with what carriage returns overwrote on it as lines of its own."""
        pieces = line.rstrip("\r").split("\r")
        if len(pieces) > FIRST_PIECES + LAST_PIECES:
            dropped = pieces[FIRST_PIECES:-LAST_PIECES]
            self.cut_bytes += sum(size(piece) + 1 for piece in dropped)
            pieces = pieces[:FIRST_PIECES] + pieces[-LAST_PIECES:]
        for piece in pieces:
            if len(piece) > LINE_CHARS:
                self.cut_bytes += size(piece[LINE_CHARS:])
                piece = piece[:LINE_CHARS]
            for part in unescaped(piece):
                self.lines.append((number, part))


def split_lines(text: str) -> list[str]:
    """Lines as an editor numbers them: by NEL and U+2028, too; old Macs have \\r."""
    text = OTHER_ENDS.sub("\n", text)
    if "\n" not in text and "\r" in text:
        return text.split("\r")
    return text.split("\n")


def select_lines(text: str) -> SelectedLines:
    """The first 1,000 and last 3,000 lines, 4,000 characters of each."""
    selected = SelectedLines()
    lines = split_lines(text)
    dropped = range(HEAD_LINES, max(HEAD_LINES, len(lines) - TAIL_LINES))
    selected.cut_lines = len(dropped)
    selected.cut_bytes = sum(size(lines[at]) + 1 for at in dropped)
    for at, line in enumerate(lines):
        if at not in dropped:
            selected.add(at + 1, line)
    return selected


def unescaped(line: str) -> list[str]:
    """The lines that a JSON log record holds in one."""
    if line.lstrip().startswith("[{"):
        return JSON_ROWS.split(line)
    if "\\n" not in line or not HOLDS_LINES.search(line):
        return [line]
    return ESCAPED_END.split(line)


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode("utf-8", "replace"))


def select_stream_lines(stream: BinaryIO) -> SelectedLines:
    """As `select_lines`, for any size: also what complains in the middle.

    Memory: the kept lines and one chunk. Lines longer than LINE_CHARS are cut.
    """
    selected, middle = SelectedLines(), Middle()
    tail: deque[tuple[int, str]] = deque()
    for number, line in enumerate(stream_lines(stream, selected), start=1):
        if number <= HEAD_LINES:
            selected.add(number, line)
            continue
        tail.append((number, line))
        if len(tail) > TAIL_LINES:
            middle.consider(*tail.popleft())
    selected.cut_lines += middle.dropped_lines
    selected.cut_bytes += middle.dropped_bytes
    for number, line in (*middle.lines, *tail):
        selected.add(number, line)
    return selected


class Middle:
    """The complaining lines of a stream's middle, each kind once."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.kinds: set[int] = set()
        self.dropped_lines = self.dropped_bytes = 0

    def consider(self, number: int, line: str) -> None:
        if len(self.lines) < MIDDLE_LINES and COMPLAINS.search(line.lower()):
            kind = hash(NOT_LETTERS.sub("", line)[:400])
            if kind not in self.kinds:
                self.kinds.add(kind)
                self.lines.append((number, line))
                return
        self.dropped_lines += 1
        self.dropped_bytes += size(line) + 1


def stream_lines(stream: BinaryIO, selected: SelectedLines) -> Iterator[str]:
    """Lines of a stream in whatever encoding; each cut at a chunk's length."""
    rest = ""
    for text in decoded(stream):
        *lines, rest = (rest + text).split("\n")
        yield from lines
        if len(rest) > CHUNK:
            selected.cut_bytes += size(rest[LINE_CHARS:-LINE_CHARS])
            rest = rest[:LINE_CHARS] + rest[-LINE_CHARS:]
    if rest:
        yield rest


def decoded(stream: BinaryIO) -> Iterator[str]:
    """The stream's text in pieces; NUL bytes of a bare UTF-16 are dropped."""
    first = stream.read(CHUNK)
    mark = next((mark for mark in BYTE_ORDER_MARKS if first.startswith(mark)), b"")
    decoder = codecs.getincrementaldecoder(BYTE_ORDER_MARKS.get(mark, "utf-8"))(
        "replace"
    )
    chunk = first[len(mark) :]
    while chunk:
        yield OTHER_ENDS.sub("\n", decoder.decode(chunk).replace("\x00", ""))
        chunk = stream.read(CHUNK)
    yield decoder.decode(b"", final=True)
