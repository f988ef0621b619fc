"""A paste as its parts: log, code, environment and so on; and its kind."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import BinaryIO

from django.utils.translation import gettext as _

from kb.environments.environment import (
    Environment,
    find_environment,
    of_packages,
    only_environment,
)
from kb.environments.spoken import ELSEWHERE, spoken_of, stated_in
from kb.search.reading.cleaning import CleanLines, plain_text
from kb.search.reading.lines import SelectedLines, select_lines, select_stream_lines
from kb.search.reading.log import Reading, read_lines, read_quotes
from kb.search.reading.margins import without_margins
from kb.search.reading.parts import (
    PRINTED,
    Kind,
    Part,
    corrected,
    is_sentence,
    split_parts,
)
from kb.search.reading.tokens import words_of

MAX_BYTES = 1024 * 1024
# Controls other than tab, line ends and escape; halves of surrogate pairs.
UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\ud800-\udfff\ufffd]")
MAX_UNREADABLE = 0.3
FEW_WORDS = 60
BEGINNING = 4000
RELEASE_ALONE = re.compile(r"v?\d+(?:\.\d+){0,3}")
MAX_SENTENCES = 200
# What few lines complain of beside a version; in a longer list it is part of a name.
COMPLAINT = re.compile(
    r"(?<![\w.=/-])(?:wrong|incorrect|inconsistent|diff(?:er\w*|s)?|unstable|garbage"
    r"|loss(?:es)?|grad(?:ient)?s?|train(?:s|ing)?|converg\w+|diverg\w+|explod\w+"
    r"|learns?|fails?|failed|crash\w*|stuck|zeros?)(?![\w.=/-])"
    r"|训练|梯度|损失|收敛|错|不一致|异常|不更新|不下降|发散|爆炸|溢出",
    re.IGNORECASE | re.ASCII,
)
FEW_LINES, MAX_ASSERTED = 3, 1000
# The last line of a traceback without its error: the message stands in the source.
ASSERTED = re.compile(r"""\s*assert\b.*,\s*[rfbu]{0,2}(["'])(.{10,400})\1\s*\)?\s*""")


class PasteTooLarge(ValueError):
    """More than MAX_BYTES of log and environment together."""


class EmptyPaste(ValueError):
    """Nothing was pasted, or nothing that is text: then `is_binary`."""

    is_binary = False


@dataclass(frozen=True)
class Paste:
    """A text as a log and as a list of versions; it may be both.

    `reading`: of the parts that a program printed.
    """

    lines: list[tuple[int, str]]
    reading: Reading
    environment: Environment
    is_only_environment: bool
    parts: list[Part] = field(default_factory=list)

    @cached_property
    def kind_of_line(self) -> dict[int, Kind]:
        return kinds_of_lines(self.parts)

    @property
    def text(self) -> str:
        return "\n".join(line for _number, line in self.lines)

    def texts(self, kind: Kind) -> list[str]:
        """The text of each part of this kind."""
        return [
            "\n".join(line for _number, line in self.lines_of(part))
            for part in self.parts
            if part.kind == kind
        ]

    def lines_of(self, part: Part) -> list[tuple[int, str]]:
        """The numbered lines of one part; lines stand in the order of their numbers."""
        first = bisect_left(self.lines, (part.first, ""))
        return self.lines[first : bisect_left(self.lines, (part.last + 1, ""))]


def check_size(log: str, env: str) -> None:
    size = sum(len(text.encode("utf-8", "replace")) for text in (log, env))
    if size > MAX_BYTES:
        raise PasteTooLarge(
            _(
                "The paste has %(size)d bytes; at most %(limit)d are read. Paste the "
                "part around the first warning or error."
            )
            % {"size": size, "limit": MAX_BYTES}
        )


def readable(text: str) -> str:
    """As `plain_text` has it, U+FFFD for controls. Raises EmptyPaste for binary."""
    if text.count("\x00") * 3 > len(text):
        text = text.replace("\x00", "")  # UTF-16 read as bytes
    marked, count = UNREADABLE.subn("\ufffd", plain_text(text))
    if count > MAX_UNREADABLE * len(text):
        error = EmptyPaste(_("This is not text: paste the lines of the log as text."))
        error.is_binary = True
        raise error
    return marked


def read_paste(text: str, corrections: Iterable[Part] = ()) -> Paste:
    """`text` as `readable` gives it; parts that a reader named as the reader says."""
    return paste_of(select_lines(text), corrections)


def read_stream(stream: BinaryIO) -> Paste:
    """A log of any size; of a long one its ends and the lines that complain."""
    selected = select_stream_lines(stream)
    if not selected.lines:
        return paste_of(selected)
    marked = readable("\n".join(line for _number, line in selected.lines)).split("\n")
    numbers = [number for number, _line in selected.lines]
    return paste_of(replace(selected, lines=list(zip(numbers, marked, strict=True))))


def paste_of(selected: SelectedLines, corrections: Iterable[Part] = ()) -> Paste:
    selected = replace(selected, lines=without_margins(selected.lines))
    cleaned = CleanLines()
    parts = corrected(split_parts(selected.lines, cleaned), corrections)
    kind_of = kinds_of_lines(parts)
    printed = [line for line in selected.lines if kind_of.get(line[0]) in PRINTED]
    written = [line for line in selected.lines if kind_of.get(line[0]) == Kind.WORDS]
    reading = read_lines(replace(selected, lines=printed), cleaned)
    read_quotes(reading, [*written, *asserted(selected.lines)])
    # Code compares with ==, which in a list names a version.
    stated = [line for line in selected.lines if kind_of.get(line[0]) != Kind.CODE]
    text = "\n".join(line for _number, line in stated)
    environment, has_code = None, len(stated) < len(selected.lines)
    begun = spoken_of(text)
    spoken = [item.package for item in begun if not item.is_fine]
    if not (has_code or begun or is_log(reading)) and may_be_environment(text):
        environment = only_environment(text)
    # Of a few lines each may be a person's; of a log only those that are sentences.
    told = stated if len(stated) <= FEW_LINES else sentences(stated, kind_of)
    spoken += chain.from_iterable(stated_in(line) for _number, line in told)
    return Paste(
        selected.lines,
        reading,
        environment or find_environment(text).merged(of_packages(spoken)),
        environment is not None and not complains(text),
        parts,
    )


def sentences(
    lines: Iterable[tuple[int, str]], kind_of: Mapping[int, Kind]
) -> list[tuple[int, str]]:
    """A person's, of which one that complains counts as log or figures."""
    return [
        row
        for row in lines
        if (kind := kind_of.get(row[0])) == Kind.WORDS
        or (kind in (Kind.LOG, Kind.METRICS) and is_sentence(row[1][:MAX_ASSERTED]))
    ]


def asserted(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The message of each line of source that asserts something."""
    for number, line in lines:
        found = "assert" in line and ASSERTED.fullmatch(line[:MAX_ASSERTED])
        if found:
            yield number, found[2]


def kinds_of_lines(parts: Iterable[Part]) -> dict[int, Kind]:
    return {n: part.kind for part in parts for n in range(part.first, part.last + 1)}


def may_be_environment(text: str) -> bool:
    """Neither a sentence that names a version nor a release number alone."""
    if RELEASE_ALONE.fullmatch(text.strip()):
        return False
    lines = text.splitlines()[:MAX_SENTENCES]
    return not any(is_sentence(line) or compares(line) for line in lines)


def compares(line: str) -> bool:
    """In Chinese, a version with which all is well, or that was changed."""
    line = line[:MAX_ASSERTED]
    return not line.isascii() and bool(ELSEWHERE.search(line))


def complains(text: str) -> bool:
    """Few lines that say what is wrong beside what is installed."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) <= FEW_LINES and bool(COMPLAINT.search(text))


def is_log(reading: Reading) -> bool:
    """Whether it reports an error or a metric, rather than what is installed."""
    return bool(
        reading.traceback
        or reading.facets
        or reading.ids
        or any(line.class_name for line in reading.key_lines)
    )


def kinds_of(paste: Paste) -> list[str]:
    """Kinds: log, traceback, nan_probe, tensor, code, config, words; collect_env, …"""
    environment = [paste.environment.kind] if paste.environment.kind else []
    if paste.is_only_environment or not paste.text.strip():
        return environment
    reading = paste.reading
    kinds = {part.kind for part in paste.parts}
    others = [kind.value for kind in (Kind.CODE, Kind.CONFIG) if kind in kinds]
    if reading.probe:
        traceback = ["traceback"] if reading.traceback else []
        return ["nan_probe", *traceback, *others]
    if reading.traceback:
        return ["traceback", *others, *environment]
    if not is_log(reading):
        if Kind.TENSOR in kinds:
            others.insert(0, Kind.TENSOR.value)
        if others:
            return [*others, *environment]
        if is_words(paste):
            return ["words", *environment]
    return ["log", *others, *environment]


def is_words(paste: Paste) -> bool:
    """A few words beside the list of versions, and nothing that a program logs."""
    if paste.reading.frames or paste.reading.has_entries:
        return False
    listed = 2 * len(paste.environment.packages) + 2 * bool(paste.environment.torch_raw)
    few, text = FEW_WORDS + listed, paste.text
    # The beginning of a long log tells already.
    return len(words_of(text[:BEGINNING])) <= few >= len(words_of(text))
