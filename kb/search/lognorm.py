"""A pasted log, read: the lines that say what went wrong, and what they say.

Nothing of the text is ever used as a pattern. Lines are numbered as an editor
would; what a progress bar overwrote by carriage returns stays on its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kb.search.facets import Metrics, metrics_in
from kb.search.masks import MASK, fingerprint, letters, masked
from kb.search.tokens import analyse_query, words_of

HEAD_LINES = 1000
TAIL_LINES = 3000
LINE_CHARS = 4000
# A log's first complaint is the cause as often as its last.
FIRST_KEY_LINES = 100
LAST_KEY_LINES = 300

ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}+[@-~]")
# What loggers, launchers and progress bars put before or into a line.
NOISE = re.compile(
    r"""
      \[(?:rank|default|worker|gpu|node)?[\s_-]?\d{1,6}\]:?       # [rank3]: [default0]:
    | \((?:[A-Za-z]\w{0,40}+\ )?pid=\d{1,9}[^()]{0,60}+\)         # (Worker pid=81)
    | [\[(]?\d{4}[-/]\d\d[-/]\d\d[T\s]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?
      (?:Z|[+-]\d\d:?\d\d)?[\])]?
    | \d\d[-/]\d\d(?:[-/]\d\d(?:\d\d)?)?\ \d\d:\d\d:\d\d(?:[.,]\d{1,9})?
    | \[(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)(?:\|[^\]\[]{0,80}+)?\]
    | (?<![\w.])(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)(?=[\s:|])\s?[:|]?
    | \[[\w./-]{1,120}\.(?:py|cpp|cc|cu|h):\d{1,6}(?::[\w<>.]{1,80}+)?\]
    | \[?[DIWEF]\d{4}\ \d\d:\d\d:\d\d\.\d{3,9}\ [\w\s./-]{1,120}+:\d{1,6}\]
    | \d{1,3}%\|[^|]{0,200}+\|\ ?\d{0,9}/?\d{0,9}\ ?(?:\[[^\]]{0,80}+\])?
    """,
    re.VERBOSE,
)
LEADING = " \t|>-:•*"
FRAME = re.compile(r'File "([^"]{1,400}+)", line \d++(?:, in ([\w<>.]{1,120}+))?')
WARNED = re.compile(r"(?<![^\s\"'(\[])([^\s\"'():\[\]]{1,300}+):\d++: ")
TRACEBACK = "Traceback (most recent call last)"
INTERNAL = "(Triggered internally at "
SOURCE = re.compile(r"([^\s:()]{1,300}+):\d++")
CLASS = re.compile(
    r"(?<![\w.])(?:\w++\.)*+(\w{0,80}?(?:Error|Exception|Warning|Unsupported)):(?!:)"
)
RAISE = re.compile(
    r"(?:>|E)?\s*+raise ((?:\w++\.)*+)(\w{1,80}+)\(\s*+[rfbu]{0,2}(['\"])(.+)"
)
TELLING = re.compile(
    r"returned nan|overflow|underflow|misaligned|illegal memory|non-?\s?finite|"
    r"not require|no grad_fn|requires_grad|mismatch|unsupported|not supported|"
    r"assert|failed|\berror\b|timeout|timed out|out of memory|diverge|"
    r"(?<![a-z])(?:nan|inf)(?![a-z])|"
    r"溢出|不匹配|未定义|失败|断言",
    re.IGNORECASE,
)
PACKAGE_DIRS = ("site-packages/", "dist-packages/")
# Sources outside an installed package, by the folder that stands for it.
KNOWN_ROOTS = ("torch/", "aten/", "c10/", "transformers/", "deepspeed/", "fla/")


@dataclass(frozen=True)
class KeyLine:
    """A line that says what went wrong. `number` counts from 1 in the paste."""

    number: int
    class_name: str
    text: str
    letters: str
    tokens: frozenset[str]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.class_name, self.letters)

    @property
    def fingerprint_of_text(self) -> str:
        """For signatures that name no class."""
        return fingerprint("", self.letters)


@dataclass
class Reading:
    """What a log says. Facets, frames and words map to the line they stood on."""

    key_lines: list[KeyLine] = field(default_factory=list)
    facets: dict[str, int] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    # As pasted; and (number, text) cleaned, in lower case.
    lines: dict[int, str] = field(default_factory=dict)
    cleaned: list[tuple[int, str]] = field(default_factory=list)
    cut_lines: int = 0
    cut_bytes: int = 0
    traceback: bool = False


def read_log(text: str) -> Reading:
    """The first 1,000 and last 3,000 lines, 4,000 characters of each."""
    reading = Reading()
    keys: dict[str, KeyLine] = {}
    for number, line in _kept(text, reading):
        reading.lines[number] = reading.lines.get(number) or line.strip()
        _read_line(number, clean(line), reading, keys)
    found = list(keys.values())
    if len(found) > FIRST_KEY_LINES + LAST_KEY_LINES:
        found = found[:FIRST_KEY_LINES] + found[-LAST_KEY_LINES:]
    reading.key_lines = found
    return reading


def _kept(text: str, reading: Reading) -> Iterator[tuple[int, str]]:
    lines = text.split("\n")
    dropped = range(HEAD_LINES, max(HEAD_LINES, len(lines) - TAIL_LINES))
    reading.cut_lines = len(dropped)
    for number, line in enumerate(lines, start=1):
        if number - 1 in dropped:
            reading.cut_bytes += _size(line) + 1
            continue
        for piece in line.split("\r"):
            reading.cut_bytes += _size(piece[LINE_CHARS:])
            yield number, piece[:LINE_CHARS]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _read_line(
    number: int, text: str, reading: Reading, keys: dict[str, KeyLine]
) -> None:
    if not text:
        return
    reading.traceback |= TRACEBACK in text
    reading.cleaned.append((number, text.lower()))
    for word in words_of(text):
        reading.words.setdefault(word, number)
    for frame in frames_in(text):
        reading.frames.setdefault(frame, number)
    metrics = metrics_in(text)
    for facet in metrics.facets:
        reading.facets.setdefault(facet, number)
    found = message_of(text, metrics)
    if found:
        key = key_line(number, *found)
        if key.letters:
            keys.setdefault(key.fingerprint, key)


def clean(line: str) -> str:
    """The line without colours, time stamps, ranks, log levels and bars."""
    text = NOISE.sub(" ", ANSI.sub("", line))
    return " ".join(text.split()).lstrip(LEADING)


def key_line(number: int, class_name: str, text: str) -> KeyLine:
    """The message as it is compared."""
    quiet = masked(text)
    tokens = analyse_query(quiet.replace(MASK, " "))
    if class_name:
        tokens.append(class_name.lower())
    return KeyLine(number, class_name, text, letters(quiet), frozenset(tokens))


def message_of(text: str, metrics: Metrics) -> tuple[str, str] | None:
    """(class or "", message) of a cleaned line that says what went wrong."""
    named = CLASS.search(text)
    if named:
        message = without_internals(text[named.end() :].strip())
        return (named[1], message) if message else None
    raised = RAISE.match(text)
    if raised:
        return raised[2], raised[4].partition(raised[3])[0]
    if metrics.are_the_line or FRAME.search(text) or not TELLING.search(text):
        return None
    return "", without_internals(text)


def without_internals(message: str) -> str:
    """Without the place in the C++ sources, which differs between builds."""
    return message.partition(INTERNAL)[0].strip()


def frames_in(text: str) -> list[str]:
    """`path` and `path:function` of the frames a line names, paths made relative."""
    found = []
    for path, function in FRAME.findall(text):
        found.append(relative(path))
        if function:
            found.append(f"{relative(path)}:{function}")
    warned = WARNED.search(text)
    if warned and warned[1].endswith(".py"):
        found.append(relative(warned[1]))
    internal = text.partition(INTERNAL)[2]
    place = SOURCE.match(internal) if internal else None
    if place:
        found.append(relative(place[1]))
    return found


def relative(path: str) -> str:
    """The path below the package's folder; of others only the file's name."""
    path = path.replace("\\", "/")
    for mark in PACKAGE_DIRS:
        _, found, after = path.rpartition(mark)
        if found:
            return after
    for root in KNOWN_ROOTS:
        _, found, after = f"/{path}".rpartition(f"/{root}")
        if found:
            return root + after
    return path.rsplit("/", 1)[-1]
