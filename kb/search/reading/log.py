"""A pasted log, read: the lines that say what went wrong, and what they say.

Nothing of the text is ever used as a pattern. Lines are numbered as an editor
would; what a progress bar overwrote by carriage returns stays on its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from kb.search.reading.cleaning import cleaned, without_escapes
from kb.search.reading.error_ids import error_ids
from kb.search.reading.lines import NOT_LETTERS, Kept, kept_lines
from kb.search.reading.masks import MASK, fingerprint, letters, masked, normalised
from kb.search.reading.metrics import NOTHING, Metrics, metrics_in, tells
from kb.search.reading.probe import is_probe, probe_lines
from kb.search.reading.tokens import analyse_query, words_of

# A log's first complaint is the cause as often as its last.
FIRST_KEY_LINES = 100
LAST_KEY_LINES = 300
MAX_WORDS = 3000
MAX_FRAMES = 400
# A message that a terminal or a log column broke is read with so many lines more.
JOINED_LINES = 3
FIRST_JOINED, LAST_JOINED = 30, 70
WRAPPED_CHARS = 40
JOINED_CHARS = 1200

FRAME = re.compile(r'File "([^"]{1,400}+)", line \d++(?:, in ([\w<>.]{1,120}+))?')
# Jupyter, pytest, rich: path:12, in f(x); path:12: in f; path:12 in f
PLACED = re.compile(
    r"(?<![^\s\"'(\[])((?:[A-Za-z]:)?[^\s\"'():,\[\]]{1,300}+):\d++(?::|,)?"
    r"(?:\sin\s([\w.<>]{1,120}+))?"
)
CELL = re.compile(r"Cell In ?\[\d{1,6}\]")
INTERNAL = "(Triggered internally at "
FUNCTION = re.compile(r"\s\(function \w{1,80}(?:\(\))?\)$")
SOURCE = re.compile(r"([^\s:()]{1,300}+):\d++")
CLASS = re.compile(
    r"(?<![\w.])(?:\w++\.)*+(\w{0,80}?(?:Error|Exception|Warning|Unsupported|Failed))"
    r"(?:\(\w{1,80}\))?\s?[:\uff1a](?!:)",
    re.ASCII,
)
RAISE = re.compile(
    r"(?:-{2,8}>)?(?:[\d\s]{0,12}+)raise ((?:\w++\.)*+)(\w{1,80}+)"
    r"\(\s*+[rfbu]{0,2}(['\"])(.+)"
)
# An exception's repr, as in "got RuntimeError('…')".
REPR = re.compile(
    r"(?<![\w.])(?:\w++\.)*+(\w{0,80}?(?:Error|Exception|Warning))\((['\"])(.{10,1200})",
    re.ASCII,
)
# In lower case; every branch begins with a letter, which makes the search quick.
TELLING = re.compile(
    r"returned nan|overflow|underflow|misaligned|illegal memory|non-?\s?finite|"
    r"not require|no grad_fn|requires_grad|mismatch|unsupported|not supported|"
    r"assert|failed|error(?<!\werror)\b|timeout|timed out|out of memory|diverge|"
    r"nans?(?<![a-z]nan)(?<![a-z]nans)(?![a-z])|inf(?<![a-z]inf)(?![a-z])|gb\d{4}|"
    r"_status_|no gradient|empty generator|溢出|不匹配|未定义|失败|断言"
)
CLASS_ENDS = ("Error", "Exception", "Warning", "Unsupported", "Failed")
# Lines that cannot continue the message above them.
BEGINS = re.compile(
    r"Traceback \(|File \"|During handling|The above exception|\^|~|```|\{|"
    r"(?:raise|return|self|warnings|import|from|def|with|for|if)\b[ .(]"
)
NUMERIC = re.compile(r"[\d.,:/_+-]++(?:e[-+]?\d++|[kmg]i?b|[sx%])?")
COMPOUND = re.compile(r"[=:/#+]++")
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
    ids: frozenset[str] = frozenset()
    # Of a message that was broken: the number of its last line.
    last: int = 0

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.class_name, self.letters)

    @property
    def fingerprint_of_text(self) -> str:
        """For signatures that name no class."""
        return fingerprint("", self.letters)


@dataclass(frozen=True)
class Line:
    """One line of what is read: as pasted, and as it is compared."""

    number: int
    raw: str
    text: str
    begins_entry: bool
    complains: bool


class Message(NamedTuple):
    """What a line says went wrong; `at`: its place among the lines read."""

    at: int
    number: int
    class_name: str
    text: str


@dataclass
class Reading:
    """What a log says. Facets, frames and ids map to the line they stood on."""

    key_lines: list[KeyLine] = field(default_factory=list)
    # Messages read together with the lines that seem to continue them.
    joined: list[KeyLine] = field(default_factory=list)
    facets: dict[str, int] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    # As pasted; and (number, text) cleaned, in lower case.
    lines: dict[int, str] = field(default_factory=dict)
    cleaned: list[tuple[int, str]] = field(default_factory=list)
    cut_lines: int = 0
    cut_bytes: int = 0
    traceback: bool = False
    # Some line begins with what a logger writes: a time, a level, a place.
    has_entries: bool = False
    probe: bool = False


def read_log(text: str) -> Reading:
    """The first 1,000 and last 3,000 lines, 4,000 characters of each."""
    return read_kept(kept_lines(text))


def read_kept(kept: Kept) -> Reading:
    reading = Reading(cut_lines=kept.cut_lines, cut_bytes=kept.cut_bytes)
    lines = [line for number, raw in kept.lines if (line := read_line(number, raw))]
    for line in lines:
        reading.lines.setdefault(line.number, line.raw.strip())
        reading.cleaned.append((line.number, normalised(line.text).lower()))
    said: dict[tuple[str, str], Message] = {}
    for at, line in enumerate(lines):
        for class_name, text in _read(line, reading):
            kind = class_name, NOT_LETTERS.sub("", text)
            said.setdefault(kind, Message(at, line.number, class_name, text))
    _read_messages(ends(list(said.values())), lines, reading)
    reading.words = particular_words(reading.cleaned)
    if is_probe(line.text for line in lines):
        _read_probe(lines, reading)
    return reading


def _read_messages(
    messages: list[Message], lines: list[Line], reading: Reading
) -> None:
    """Key lines: each message once, and what may be one that was broken."""
    known: set[str] = set()
    broken: list[Message] = []
    for message in messages:
        key = key_line(message.number, message.class_name, message.text)
        if key.letters and key.fingerprint not in known:
            known.add(key.fingerprint)
            reading.key_lines.append(key)
            broken.append(message)
    if len(broken) > FIRST_JOINED + LAST_JOINED:
        broken = broken[:FIRST_JOINED] + broken[-LAST_JOINED:]
    for message in broken:
        reading.joined += continued(message, lines)


def ends(found: list[Message]) -> list[Message]:
    if len(found) > FIRST_KEY_LINES + LAST_KEY_LINES:
        return found[:FIRST_KEY_LINES] + found[-LAST_KEY_LINES:]
    return found


def read_line(number: int, raw: str) -> Line | None:
    found = cleaned(raw)
    return Line(number, raw, *found) if found.text else None


def particular_words(lines: list[tuple[int, str]]) -> list[str]:
    """The log's distinct words; of very many the longest."""
    words = set(words_of("\n".join(text for _, text in lines)))
    # A setting stands as NAME=1 in a shell's line and as NAME in a record.
    words |= {part for word in words for part in COMPOUND.split(word)}
    words = {word for word in words if len(word) > 2 and not NUMERIC.fullmatch(word)}
    if len(words) > MAX_WORDS:
        return sorted(words, key=lambda word: (-len(word), word))[:MAX_WORDS]
    return sorted(words)


def _read(line: Line, reading: Reading) -> list[tuple[str, str]]:
    """The line's facets, frames and ids into `reading`; its messages."""
    number, text = line.number, line.text
    reading.traceback |= "Traceback" in text or bool(CELL.search(text))
    reading.has_entries |= line.begins_entry
    if len(reading.frames) < MAX_FRAMES:
        for frame in frames_in(text):
            reading.frames.setdefault(frame, number)
    for name in error_ids(text):
        reading.ids.setdefault(name, number)
    telling = line.complains or is_telling(text)
    metrics = NOTHING
    if telling or tells(line.raw):
        # A bar's own values stand in what `clean` drops.
        metrics = metrics_in(
            text if "%|" not in line.raw else without_escapes(line.raw)
        )
    for facet in metrics.facets:
        reading.facets.setdefault(facet, number)
    return messages_of(text, metrics, telling)


def _read_probe(lines: list[Line], reading: Reading) -> None:
    reading.probe = True
    found = probe_lines((line.number, line.text) for line in lines)
    for facet, number in found.facets.items():
        reading.facets.setdefault(facet, number)
    known = {line.fingerprint for line in reading.key_lines}
    for number, message in found.messages:
        key = key_line(number, "RuntimeError", message)
        if key.fingerprint not in known:
            reading.key_lines.append(key)


def key_line(number: int, class_name: str, text: str) -> KeyLine:
    """The message as it is compared."""
    quiet = masked(text)
    tokens = analyse_query(quiet.replace(MASK, " "))
    if class_name:
        tokens.append(class_name.lower())
    said = letters(quiet)
    return KeyLine(number, class_name, text, said, frozenset(tokens), error_ids(text))


def continued(message: Message, lines: list[Line]) -> Iterator[KeyLine]:
    """The message together with the lines a narrow terminal broke it into.

    Whether a word was broken too cannot be seen, so both readings are given.
    """
    following = continuation(lines, message.at)
    for gap in ("", " ") if following else ():
        text = gap.join([message.text, *following])[:JOINED_CHARS]
        # A class alone at a line's end has its message below.
        named = messages_of(text, NOTHING, telling=True)
        class_name, said = named[0] if named else ("", text)
        key = key_line(message.number, message.class_name or class_name, said)
        yield replace(key, last=message.number + len(following))


def continuation(lines: list[Line], at: int) -> list[str]:
    """The texts below lines[at] that may belong to its message."""
    found: list[str] = []
    for before, line in pairwise(lines[at : at + 1 + JOINED_LINES]):
        indent = len(line.raw) - len(line.raw.lstrip())
        if (
            line.begins_entry
            or line.number > before.number + 1
            or len(before.raw) < WRAPPED_CHARS
            or 1 < indent < 6
            or BEGINS.match(line.text)
            or CLASS.match(line.text)
        ):
            break
        found.append(line.text)
    return found


def message_of(text: str, metrics: Metrics) -> tuple[str, str] | None:
    """(class or "", message) of a cleaned line that says what went wrong."""
    found = messages_of(text, metrics, is_telling(text))
    return found[0] if found else None


def is_telling(text: str) -> bool:
    """It has a word that complaints have."""
    return TELLING.search(text.lower()) is not None


def messages_of(text: str, metrics: Metrics, telling: bool) -> list[tuple[str, str]]:
    """Every (class or "", message): an error may name the one that caused it."""
    has_class = any(end in text for end in CLASS_ENDS)
    found = [
        (named[1], message)
        for named in (CLASS.finditer(text) if has_class else ())
        if (message := without_internals(text[named.end() :].strip()))
    ]
    if has_class:
        found += [
            (name, said.partition(f"{quote})")[0])
            for name, quote, said in REPR.findall(text)
        ]
    if found:
        return found[:4]
    raised = RAISE.match(text)
    if raised:
        return [(raised[2], raised[4].partition(raised[3])[0])]
    if metrics.are_the_line or not telling or FRAME.search(text):
        return []
    return [("", without_internals(text))]


def without_internals(message: str) -> str:
    """Without the place in the C++ sources, which differs between builds."""
    return FUNCTION.sub("", message.partition(INTERNAL)[0].strip())


def frames_in(text: str) -> list[str]:
    """`path` and `path:function` of the frames a line names, paths made relative."""
    if ".py" not in text and "ipython" not in text and INTERNAL not in text:
        return []
    places = FRAME.findall(text)
    if not places:
        places = [place for place in PLACED.findall(text) if place[0].endswith(".py")]
    found = []
    for path, function in places[:4]:
        found.append(relative(path))
        if function:
            found.append(f"{relative(path)}:{function.rpartition('.')[2]}")
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
