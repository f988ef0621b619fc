"""The parts of a paste, each for what it is: log, traceback, code, words and so on.

People paste what they have: forty lines of a log between two sentences, their code, a
printed tensor, a configuration. Only what a program printed is compared with what
programs print; all else says what the paste is about. A line of which nothing is
certain counts as log.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from kb.search.reading.cleaning import CleanLines
from kb.search.reading.log import CELL, CLASS, FRAME, RAISE, has_class, is_telling
from kb.search.reading.probe import Inside
from kb.search.reading.symptom_facets import metrics_in
from kb.search.reading.tokens import HAN


class Kind(StrEnum):
    LOG = "log"
    TRACEBACK = "traceback"
    METRICS = "metrics"
    TENSOR = "tensor"
    PROBE = "nan_probe"
    CODE = "code"
    CONFIG = "config"
    ENVIRONMENT = "environment"
    WORDS = "words"


# What a program printed while it ran.
PRINTED = frozenset((Kind.LOG, Kind.TRACEBACK, Kind.METRICS, Kind.TENSOR, Kind.PROBE))
# Lines that are read closely; the rest of a long log is log.
MAX_LINES = 4000
MAX_CHARS = 400
MAX_PARTS = 60


class Part(NamedTuple):
    """Lines `first` to `last` of the paste, counted from 1."""

    kind: Kind
    first: int
    last: int


TRACE = re.compile(r"\s*(?:\S+\s+)?Traceback \(most recent|\s*-{2,8}>\s?\d+\s")
NUMBERED_SOURCE = re.compile(r"\s*\d{1,6}\s{1,4}\S")
POINTER = re.compile(r"[\s~^]+$")
NUMBERS = re.compile(
    r"[\s\[\](){},.:;#>-]*(?:(?:nan|inf|\d|e[-+]\d)[\s\[\](){},.;:+-]*)+$"
)
TENSOR = re.compile(
    r"(?:#\s*)?(?:[\w.|()]{1,40}\s*[:=]?\s*)?[\[(]*"
    r"(?:tensor|DTensor|Parameter containing)\b[:(]"
    r"|.{0,200}\bgrad_fn=<|(?:#\s*)?[\])}, ]*(?:dtype|device)=['\"\w.:]+,?\s*\)?",
)
# How torch prints the tensor of several ranks; nobody writes that.
SHARDED = "DTensor(local_tensor="
# One of them stands in whatever is one: a cheap test, as most lines are none.
TENSOR_SIGNS = ("tensor", "grad_fn", "dtype", "device", "Parameter containing")
STATEMENT = re.compile(
    r"(?:>>>|\.{3}:?|In \[\d+\]:)\s+\S|(?:async )?def \w+\s?\(|class \w+\s?[(:]"
    r"|import [\w.]+(?: as \w+)?(?:,|$|\s+#)|from [\w.]+ import [\w(*]"
    r"|@[A-Za-z_][\w.]*(?:\(.*)?$"
    r"|(?:if|elif|for|while|with|except)\b.{1,300}:\s*(?:#.*)?(?:\w.*)?$"
    r"|(?:try|else|finally):\s*(?:#.*)?$|return(?:$|\s[\w(\[{'\"-])"
    r"|(?:assert|del|raise|yield)\s[\w(]|lambda\s\w|(?:var|auto|const|let)\s\w+\s=\s"
)
TARGET = r"[A-Za-z_][\w.]*+(?:\[[^\]]{0,80}\])?"
ASSIGNMENT = re.compile(
    rf"{TARGET}(?:\s*,\s*{TARGET}){{0,5}}\s*(?::\s?[\w.\[\]]+\s*)?"
    r"(?:[-+*/%@|&^]|//|\*\*|<<|>>)?=(?!=)\s*\S"
)
CALL = re.compile(
    r"[A-Za-z_][\w.]*+(?:\[[^\]]{0,80}\])*\(.{0,400}[)\](,:]\s*;?\s*(?:#.*|//.*)?$"
)
HAS_CALL = re.compile(r"[\w\])]\(|\[[\w:, ]+\]|\s[-+*/@%]\s|\*\*|\blambda\b")
# A value that is made by a call of something dotted is no measurement.
CALLED = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\(")
ARGUMENT = re.compile(
    r"\*{0,2}[a-z_]\w*\s?=\s?.{1,200},?\s*(?:#.*)?$|[\w.\[\]*'\"]+,\s*(?:#.*)?$"
)
CLOSER = re.compile(r"[)\]}\s,:;]+(?:#.*)?$|(?:\.\.\.)$")
SUBSCRIPT = re.compile(r"[A-Za-z_][\w.]*+(?:\[[^\]]{0,80}\])+$")
COMMENT = re.compile(r"\s*(?:#|//)(?!\s*tensor\()")
OPTION = re.compile(
    r"(?:.{0,200}\s)?--[a-z][\w-]{2,60}(?:[ =]|\s*\\?$)"
    r"|(?:[^\s=]++=\S++\s)*(?:python3?|torchrun|deepspeed|accelerate launch|srun|mpirun"
    r"|CUDA_VISIBLE_DEVICES=\S+|export)\s\S"
)
PAIR = re.compile(
    r"[-\s]*['\"]?[A-Za-z_][\w.-]{1,60}['\"]?\s?[:：](?:\s+['\"\[{]?[\w./+-][^。]{0,80})?,?\s*$"
)
FIELD = re.compile(r"['\"][\w.-]{1,60}['\"]\s?:\s?.{1,200},?$")
PACKAGE = re.compile(
    r"[-*\s]*[A-Za-z][\w.-]{0,60}(?:\[[\w,]+\])?\s?(?:===?\s?|\s@\s|\s{2,})v?\d"
    r"|[-*\s]*[A-Za-z][\w.-]{0,40}\s?[:：]\s?v?\d++\.\d++\.\w"
    r"|\s*\[(?:pip3?|conda)\]\s|[-*\s]*(?:PyTorch|torch|CUDA|cuDNN|Python|GPU|GPUs|OS|"
    r"(?:\w+\s){0,3}version)\s?(?:version|版本)?\s?[:：]\s?\S",
    re.IGNORECASE,
)
HEADING = re.compile(r"#{1,6}\s\w|={3,}$|-{3,}$|```")
ADDRESSING = (
    r"\b(?:I|I'm|I've|my|we|our|you|your|me|please|thanks|hello|hi|anyone|why)\b|[?？]"
)
# The first is the second for text of ASCII alone, in half of its time.
SPOKEN_ASCII = re.compile(ADDRESSING)
SPOKEN = re.compile(
    rf"{ADDRESSING}|我|你|请|吗|为什么|怎么|如何|[{HAN}]{{2,}}[，。：；]|[{HAN}]{{6,}}"
    rf"|[{HAN}][^\n，。；]{{0,40}}[，。；]\s?[{HAN}]{{2}}"
)
# Of lists and quotes, which `clean_line` takes off as well.
MARKS = ("#", ">", "-", "*")
FUNCTION_WORD_LIST = """
a after all also although an and are as at be because before but by can could did do
does doesn't don't even for from get gets getting goes had has have how i if in into is
it its just make makes not now of on only or same since so some still that the their
then there these they this to too use used using very want was were what when where
which while will with without would
"""
FUNCTION_WORDS = frozenset(FUNCTION_WORD_LIST.split())
HAN_RUNS = re.compile(f"[{HAN}]")
METRIC_NAMES = re.compile(
    "梯度范数|损失|梯度|学习率|准确率|精度|步数?|轮次?|变[成为]了?|[为是]"
)
MIN_HAN = 4
PYTHON_WORDS = frozenset(keyword.kwlist) | {"none", "true", "false", "self"}
MIN_WORDS, MIN_FUNCTION_WORDS = 5, 3


def split_parts(
    lines: Sequence[tuple[int, str]], cleaned: CleanLines | None = None
) -> list[Part]:
    """The parts of numbered lines, in order; blank lines lie within or between them.

    `cleaned` keeps what of the lines had to be cleaned, for another purpose.
    """
    kinds = [Kind.LOG] * len(lines)
    reader = Reader(CleanLines() if cleaned is None else cleaned)
    for at, (_number, line) in enumerate(lines[:MAX_LINES]):
        kinds[at] = reader.kind(line[:MAX_CHARS])
    settle(kinds, [line for _number, line in lines])
    parts: list[Part] = []
    for (number, line), kind in zip(lines, kinds, strict=True):
        if not line.strip():
            continue
        if parts and kind == parts[-1].kind:
            parts[-1] = parts[-1]._replace(last=number)
        elif len(parts) < MAX_PARTS:
            parts.append(Part(kind, number, number))
        else:
            # So many pieces were not understood: they are read as a log.
            parts[-1] = Part(Kind.LOG, parts[-1].first, number)
    return parts


def corrected(parts: Iterable[Part], corrections: Iterable[Part]) -> list[Part]:
    """The parts, those that a reader named read as the reader says."""
    said = {(part.first, part.last): part.kind for part in corrections}
    return [
        part._replace(kind=said.get((part.first, part.last), part.kind))
        for part in parts
    ]


class Reader:
    """The kind of each line, by itself and by what came before it."""

    def __init__(self, cleaned: CleanLines) -> None:
        self.cleaned = cleaned
        self.before = Kind.LOG
        # Brackets that code left open.
        self.open = 0
        # A frame's source stands below it.
        self.in_frame = False
        self.in_probe = Inside()

    def kind(self, line: str) -> Kind:
        line = line.removeprefix("> ")  # quoted
        bare = line.strip()
        if not bare:
            return self.before
        kind = self.of_line(line, bare)
        if kind == Kind.CODE:
            self.open = max(0, self.open + opened(line))
        else:
            self.open = 0
        self.in_frame = kind == Kind.TRACEBACK and bool(FRAME.search(line))
        self.before = kind
        return kind

    def of_line(self, line: str, bare: str) -> Kind:
        if self.in_probe(bare):
            return Kind.PROBE
        if self.is_traceback(line, bare):
            return Kind.TRACEBACK
        if self.open and not CLASS.match(bare):
            return Kind.CODE
        if is_statement(bare):
            return Kind.CODE
        if self.before == Kind.CODE and goes_on(line, bare):
            return Kind.CODE
        return kind_of_text(line, bare, self.before, self.cleaned)

    def is_traceback(self, line: str, bare: str) -> bool:
        if TRACE.match(line) or FRAME.search(line) or CELL.search(line):
            return True
        inside = self.before == Kind.TRACEBACK
        if inside and (POINTER.match(line) or NUMBERED_SOURCE.match(line)):
            return True
        return self.in_frame or (inside and bool(CLASS.match(bare)))


def kind_of_text(line: str, bare: str, before: Kind, cleaned: CleanLines) -> Kind:
    """Of a line that is neither code nor part of a traceback."""
    if is_tensor(bare) or (before == Kind.TENSOR and NUMBERS.match(bare)):
        return Kind.TENSOR
    clean = cleaned[line]
    if clean.begins_entry or has_class(clean.text) or RAISE.match(bare):
        return Kind.LOG
    if cleaned.metrics[clean.text].are_the_line:
        return Kind.WORDS if is_chinese(clean.text) else Kind.METRICS
    if NUMBERS.match(bare) and "[" in bare:
        return Kind.TENSOR
    if clean.text != " ".join(bare.split()) and not bare.startswith(MARKS):
        return Kind.LOG  # what a launcher or a progress bar put round it
    if PACKAGE.match(bare) and not is_spoken(bare):
        return Kind.ENVIRONMENT
    if OPTION.match(bare) or FIELD.match(bare) or PAIR.match(bare):
        return Kind.CONFIG
    return Kind.WORDS if is_spoken(bare) or HEADING.match(bare) else Kind.LOG


def is_statement(bare: str) -> bool:
    """A line of Python that is nothing else."""
    if STATEMENT.match(bare):
        spoken = set(bare.lower().split()) & FUNCTION_WORDS - PYTHON_WORDS
        return len(spoken) < MIN_FUNCTION_WORDS and not SPOKEN.match(bare)
    if ASSIGNMENT.match(bare):
        _target, _sign, value = bare.partition("=")
        if value.lstrip().startswith(SHARDED):
            return False
        if CALLED.search(value) and not is_tensor(value.strip()):
            return True
        return bool(HAS_CALL.search(value)) and not metrics_in(bare).are_the_line
    return bool(CALL.match(bare)) and not is_tensor(bare) and not CLASS.match(bare)


def goes_on(line: str, bare: str) -> bool:
    """Code where code stands above."""
    if has_class(bare) or is_tensor(bare):
        return bool(COMMENT.match(line)) and not is_tensor(bare)
    return bool(
        line[:1].isspace()
        or COMMENT.match(line)
        or CLOSER.match(bare)
        or SUBSCRIPT.match(bare)
        or is_weak_statement(bare)
    )


def is_tensor(bare: str) -> bool:
    """Begins a printed tensor, or goes on with one."""
    return any(map(bare.__contains__, TENSOR_SIGNS)) and bool(TENSOR.match(bare))


def is_weak_statement(bare: str) -> bool:
    return bool(ASSIGNMENT.match(bare) or ARGUMENT.match(bare))


def is_sentence(text: str) -> bool:
    """Words of a language rather than names: "with the mask it is fine: nothing"."""
    words = [word.strip(",.;:!").lower() for word in text.split()]
    spoken = sum(word in FUNCTION_WORDS for word in words)
    return len(words) >= MIN_WORDS and spoken >= MIN_FUNCTION_WORDS


def is_spoken(text: str) -> bool:
    """A person wrote it; a sentence that complains may be a program's."""
    if (SPOKEN_ASCII if text.isascii() else SPOKEN).search(text):
        return True
    return is_sentence(text) and not is_telling(text)


def is_chinese(text: str) -> bool:
    """Words beside the names of what is measured, which a log may have in Chinese."""
    return len(HAN_RUNS.findall(METRIC_NAMES.sub("", text))) >= MIN_HAN


def opened(line: str) -> int:
    """Brackets opened and not closed, comments and the simplest strings aside."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", line)
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def settle(kinds: list[Kind], lines: Sequence[str]) -> None:
    """What only its neighbours tell: comments above code, one `name: value` alone."""
    for at in range(len(kinds) - 2, -1, -1):
        if kinds[at + 1] == Kind.CODE and kinds[at] != Kind.TRACEBACK:
            weak = kinds[at] == Kind.LOG and is_weak_statement(lines[at].strip())
            if weak or COMMENT.match(lines[at]):
                kinds[at] = Kind.CODE
    # A blank line goes with the one before it, and is no company.
    written = [at for at, line in enumerate(lines) if line.strip()]
    for place, at in enumerate(written):
        beside = (*written[max(0, place - 1) : place], *written[place + 1 : place + 2])
        alone = all(kinds[other] != Kind.CONFIG for other in beside)
        if kinds[at] == Kind.CONFIG and alone and PAIR.match(lines[at].strip()):
            kinds[at] = Kind.LOG
