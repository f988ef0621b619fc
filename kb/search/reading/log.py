"""The errors, warnings and metrics in a pasted log.

The text is untrusted input: nothing in it is ever used as a pattern. Lines are
numbered as an editor would; what a progress bar overwrote by carriage returns stays on
its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from kb.search.reading.cleaning import CleanLines, clean_line
from kb.search.reading.error_ids import error_ids
from kb.search.reading.lines import NOT_LETTERS, SelectedLines
from kb.search.reading.masks import MASK, fingerprint, letters, masked, normalised
from kb.search.reading.probe import Inside, Probe, read_probe
from kb.search.reading.symptom_facets import (
    NO_METRICS,
    Metrics,
    MetricsOfLines,
    may_have_facet,
)
from kb.search.reading.tokens import analyse_query, distinct_words_of

# A log's first complaint is the cause as often as its last.
FIRST_KEY_LINES = 100
LAST_KEY_LINES = 300
MAX_WORDS = 3000
MAX_FRAMES = 400
MAX_QUOTES = 100
# A message that a terminal or a log column wrapped is read with this many more lines.
WRAPPED_LINES = 3
FIRST_WRAPPED, LAST_WRAPPED = 30, 70
WRAPPED_CHARS = 40
UNWRAPPED_CHARS = 1200

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
    r"(?<![\w.])(?>(?:\w++\.)*)(\w{0,80}?(?:Error|Exception|Warning|Unsupported|Failed))"
    r"(?:\(\w{1,80}\))?\s?[:\uff1a](?!:)",
    re.ASCII,
)
RAISE = re.compile(
    r"(?:-{2,8}>)?(?:[\d\s]{0,12}+)raise ((?>(?:\w++\.)*))(\w{1,80}+)"
    r"\(\s*+[rfbu]{0,2}(['\"])(.+)"
)
# An exception's repr, as in "got RuntimeError('…')".
REPR = re.compile(
    r"(?<![\w.])(?>(?:\w++\.)*)(\w{0,80}?(?:Error|Exception|Warning))\((['\"])(.{10,1200})",
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
    # Of an unwrapped message: the number of its last line.
    last: int = 0
    # In what a person wrote: it is a message only word for word.
    quoted: bool = False

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
    # Messages joined with the lines onto which a terminal seems to have wrapped them.
    unwrapped: list[KeyLine] = field(default_factory=list)
    # Sentences around the log, which may quote a message.
    quotes: list[KeyLine] = field(default_factory=list)
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
    # What a report of nan_probe.py among the lines says.
    probe: Probe | None = None


def read_lines(selected: SelectedLines, cleaned: CleanLines | None = None) -> Reading:
    """`cleaned`: what of the lines has been cleaned for another purpose."""
    reading = Reading(cut_lines=selected.cut_lines, cut_bytes=selected.cut_bytes)
    cleaned = CleanLines() if cleaned is None else cleaned
    lines = [
        Line(number, raw, *clean)
        for number, raw in selected.lines
        if (clean := cleaned[raw]).text
    ]
    for line in lines:
        reading.lines.setdefault(line.number, line.raw.strip())
        reading.cleaned.append((line.number, normalised(line.text).lower()))
    messages: dict[tuple[str, str], Message] = {}
    in_probe = Inside()
    report: list[Line] = []
    for at, line in enumerate(lines):
        if in_probe(line.text):
            report.append(line)
            continue
        for class_name, text in _collect(line, reading, cleaned.metrics):
            kind = class_name, NOT_LETTERS.sub("", text)
            messages.setdefault(kind, Message(at, line.number, class_name, text))
    unique = list(messages.values())
    unique = first_and_last(unique, FIRST_KEY_LINES, LAST_KEY_LINES)
    _read_messages(unique, lines, reading)
    reading.words = particular_words(reading.cleaned)
    if report:
        _read_probe(report, reading)
    return reading


def read_quotes(reading: Reading, lines: list[tuple[int, str]]) -> None:
    """Add what a person wrote around the log: quotes, and words as context."""
    cleaned = [(number, clean_line(line).text) for number, line in lines[:MAX_QUOTES]]
    for number, text in cleaned:
        key = replace(key_line(number, "", text), quoted=True)
        reading.lines.setdefault(number, text)
        if key.letters:
            reading.quotes.append(key)
    reading.words = sorted({*reading.words, *particular_words(cleaned)})[:MAX_WORDS]


def _read_messages(
    messages: list[Message], lines: list[Line], reading: Reading
) -> None:
    """Key lines: each message once, and the unwrapped readings of each."""
    fingerprints: set[str] = set()
    distinct: list[Message] = []
    for message in messages:
        key = key_line(message.number, message.class_name, message.text)
        if key.letters and key.fingerprint not in fingerprints:
            fingerprints.add(key.fingerprint)
            reading.key_lines.append(key)
            distinct.append(message)
    for message in first_and_last(distinct, FIRST_WRAPPED, LAST_WRAPPED):
        reading.unwrapped += unwrapped(message, lines)


def first_and_last(messages: list[Message], first: int, last: int) -> list[Message]:
    if len(messages) > first + last:
        return messages[:first] + messages[-last:]
    return messages


def particular_words(lines: list[tuple[int, str]]) -> list[str]:
    """The log's distinct words; of very many the longest."""
    words = distinct_words_of("\n".join(text for _, text in lines))
    # A setting stands as NAME=1 in a shell's line and as NAME in a record.
    compound = [word for word in words if not word.isalnum()]
    words |= {part for word in compound for part in COMPOUND.split(word)}
    words = {word for word in words if len(word) > 2 and not is_number(word)}
    if len(words) > MAX_WORDS:
        return sorted(words, key=lambda word: (-len(word), word))[:MAX_WORDS]
    return sorted(words)


def is_number(word: str) -> bool:
    return not word.isalpha() and NUMERIC.fullmatch(word) is not None


def _collect(
    line: Line, reading: Reading, read: MetricsOfLines
) -> list[tuple[str, str]]:
    """Add the line's facets, frames and ids to `reading`; return its messages."""
    number, text = line.number, line.text
    reading.traceback |= "Traceback" in text or bool(CELL.search(text))
    reading.has_entries |= line.begins_entry
    if len(reading.frames) < MAX_FRAMES:
        for frame in frames_in(text):
            reading.frames.setdefault(frame, number)
    for name in error_ids(text):
        reading.ids.setdefault(name, number)
    telling = line.complains or is_telling(text)
    metrics = NO_METRICS
    if telling or may_have_facet(line.raw):
        # The values of a progress bar stand in what `clean_line` drops.
        metrics = read[line.raw if "%|" in line.raw else text]
    for facet in metrics.facets:
        reading.facets.setdefault(facet, number)
    return messages_of(text, metrics, telling)


def _read_probe(lines: list[Line], reading: Reading) -> None:
    reading.probe = report = read_probe((line.number, line.text) for line in lines)
    for line in lines:
        for frame in frames_in(line.text):
            reading.frames.setdefault(frame, line.number)
    for facet, number in report.facets.items():
        reading.facets.setdefault(facet, number)
    fingerprints = {line.fingerprint for line in reading.key_lines}
    for number, message in report.messages:
        key = key_line(number, "RuntimeError", message)
        if key.fingerprint not in fingerprints:
            reading.key_lines.append(key)


def key_line(number: int, class_name: str, text: str) -> KeyLine:
    """The message as it is compared."""
    masked_text = masked(text)
    tokens = analyse_query(masked_text.replace(MASK, " "))
    if class_name:
        tokens.append(class_name.lower())
    identifying = letters(masked_text)
    return KeyLine(
        number, class_name, text, identifying, frozenset(tokens), error_ids(text)
    )


def unwrapped(message: Message, lines: list[Line]) -> Iterator[KeyLine]:
    """The message joined with the lines onto which a narrow terminal wrapped it.

    Whether the break splits a word cannot be seen, so both readings are given.
    """
    following = continuation(lines, message.at)
    for gap in ("", " ") if following else ():
        text = gap.join([message.text, *following])[:UNWRAPPED_CHARS]
        # A class alone at a line's end has its message below.
        readings = messages_of(text, NO_METRICS, telling=True)
        class_name, message_text = readings[0] if readings else ("", text)
        key = key_line(message.number, message.class_name or class_name, message_text)
        yield replace(key, last=message.number + len(following))


def continuation(lines: list[Line], at: int) -> list[str]:
    """The texts below lines[at] that may belong to its message."""
    texts: list[str] = []
    for before, line in pairwise(lines[at : at + 1 + WRAPPED_LINES]):
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
        texts.append(line.text)
    return texts


def message_of(text: str, metrics: Metrics) -> tuple[str, str] | None:
    """(class or "", message) of a cleaned line that says what went wrong."""
    messages = messages_of(text, metrics, is_telling(text))
    return messages[0] if messages else None


def is_telling(text: str) -> bool:
    """It has a word that complaints have."""
    return TELLING.search(text.lower()) is not None


def may_have_class(text: str) -> bool:
    """A cheap test, as most lines name no class of errors."""
    return any(map(text.__contains__, CLASS_ENDS))


def has_class(text: str) -> bool:
    """It names a class of errors, as what comes before a message."""
    return may_have_class(text) and CLASS.search(text) is not None


def messages_of(text: str, metrics: Metrics, telling: bool) -> list[tuple[str, str]]:
    """Every (class or "", message): an error may name the one that caused it."""
    named = may_have_class(text)
    messages = [
        (match[1], message)
        for match in (CLASS.finditer(text) if named else ())
        if (message := without_internals(text[match.end() :].strip()))
    ]
    if named:
        messages += [
            (name, rest.partition(f"{quote})")[0])
            for name, quote, rest in REPR.findall(text)
        ]
    if messages:
        return messages[:4]
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
    frames = []
    for path, function in places[:4]:
        frames.append(relative(path))
        if function:
            frames.append(f"{relative(path)}:{function.rpartition('.')[2]}")
    internal = text.partition(INTERNAL)[2]
    place = SOURCE.match(internal) if internal else None
    if place:
        frames.append(relative(place[1]))
    return frames


def relative(path: str) -> str:
    """The path below the package's folder; of others only the file's name."""
    path = path.replace("\\", "/")
    for mark in PACKAGE_DIRS:
        _, mark_found, after = path.rpartition(mark)
        if mark_found:
            return after
    for root in KNOWN_ROOTS:
        _, mark_found, after = f"/{path}".rpartition(f"/{root}")
        if mark_found:
            return root + after
    return path.rsplit("/", 1)[-1]
