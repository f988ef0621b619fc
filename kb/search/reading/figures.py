"""Figures over steps in a pasted log: loss, norm of the gradients, loss scale.

Read from lines of `name: value` in every form that `METRIC` knows, and from tables
whose heading names the columns, as YOLO prints them and results.csv keeps them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from kb.search.reading.symptom_facets import (
    BESIDE_HAN,
    METRIC,
    NUMBER,
    other_forms,
    row_of,
    says_nan,
)
from kb.search.reading.tables import Table, heading_of, is_number, pairs_of

LOSS, NORM, SCALE = SHOWN = "loss", "grad_norm", "loss_scale"
HEAD_LINES, TAIL_LINES = 1000, 2000  # that are read of a longer log
# A line without any of these gives no figure.
WORDS = ("loss", "norm", "scale", "grad", "损失", "梯度")
# What a metric's name says it is, the first that fits; evaluations are none.
KINDS = (
    (SCALE, re.compile(r"(?:loss|grad(?:ient)?|amp)[ _]?scaler?$|^scaler?$")),
    (NORM, re.compile(r"(?:grad(?:ient)?|global|total)[ _]norm$|^gnorm$")),
    (LOSS, re.compile(r"loss$|^(?:box|cls|dfl|obj|total)$")),
)
NOT_TRAINING = re.compile(
    r"^(?:eval|val\.?|vali|valid|validation|test|aux|moe|router)[_/]"
)
# Beside a loss of the training on the same line: "Train Loss: 1.3 Vali Loss: nan".
EVALUATED = re.compile(
    rf"\b(?:val|vali|valid|validation|test) loss\W{{0,4}}{NUMBER}", re.I
)
# "grad_norm: 0.39 (nan)": the mean over steps stands in brackets.
MEAN = re.compile(
    rf"\b(\w*(?:loss|norm))['\"]?\s?[:=]\s?({NUMBER})\s\((nan|inf)\)", re.I
)
# "| loss 9.12 | norm 2.1 | lr 3e-5": beside a loss it is that of the gradients.
NORM_ALONE = re.compile(rf"[|,]\s?norm:?\s({NUMBER})", re.I)
SCALED = re.compile(
    rf"\b(?:loss|grad|get)[ _]?scale\b(?:\(\))?(?: (?:is|at|goes|falls|from {NUMBER}))?"
    rf"(?: to)?(?: reached)?\s?[:=(]?\s{{0,3}}({NUMBER})",
    re.I,
)
OVERFLOW = re.compile(
    rf"(?:attempted )?loss scale:?\s({NUMBER}).{{0,20}}reducing to\s({NUMBER})", re.I
)
TOTALS = ("loss", "Loss", "total_loss")
# "loss: x 27.0, y 28.6, conf nan, total nan": parts in a row, as YOLOv2 prints them.
PARTS = re.compile(rf"\bloss:((?:\s\w{{1,30}}\s{NUMBER},?){{2,30}})", re.I)
ONE_PART = re.compile(rf"\b(\w{{1,30}}+)\s({NUMBER})", re.I)
# "zero loss", "train loss stays at 0", "the loss suddenly becomes nan", "loss 一直为 0"
SAID = re.compile(
    r"\b(zero) loss\b|\bloss\b[^.,;\n]{0,24}?\b(?:is|stays?|remains?|drops?|bec[ao]mes?"
    r"|turns?|goes|went|always|stuck)\b[^.,;\n]{0,16}?\b(0|0\.0+|zero|nan)(?![\w.]\w|\w)"
    r"|(?:loss|损失)(?:[^。\n]{0,24}?(?:突然|然后|后面|最后|之后))?\s?"
    r"(?:一直|始终|总是|都|全|突然|直接|就){0,2}(?:变|降|掉|保持)?[为是成到]\s?"
    r"(0(?:\.0+)?|nan)(?![\d.]\d|[\da-z])",
    BESIDE_HAN,
)
# The mean over all steps, which the transformers Trainer prints below them.
MEAN_OF_RUN = "train_runtime"
# "Loss becomes nan after 6000 iterations": no program prints how it came.
BECOMES = re.compile(
    r"\b(?:loss|grad\w*|norm|training|model|weights?|outputs?)(?: \w+)?"
    r" (?:becomes?|became|turns?|turned|goes|went|gets?|got)\b[^:=]*\bnan\b"
    r"|(?:出现|变成|变为)[^。\n]{0,10}nan(?![a-z])",
    re.IGNORECASE,
)
# "will never become zero", "is not nan", "num_non_zero": the state is denied.
DENIED = re.compile(
    r"(?:\b(?:never|not|cannot)|n't) (?:(?:be(?:come)?s?|reach|get|go) )?(?:\w+ed )?"
    r"(?:to )?(?:exactly )?(?:zero|0|nan|inf)\b|non[-_ ]?zero"
    r"|\b(?:no|without(?: any)?) (?:nan|inf)s?\b(?! loss)"
    r"|(?:没有?|未)(?:再)?(?:出现|变成|变为)?\s?nan(?![a-z])",
    re.IGNORECASE,
)
# "zero gradients", "the gradients are all zero", "梯度全是 0"
SAID_OF_NORM = re.compile(
    r"\b(zero) gradients?\b|\bgrad(?:ient)?s?\b[^.,;:=\n]{0,24}?\b(?:is|are|stays?"
    r"|bec[ao]mes?|go(?:es)?|all|always)\b[^.,;:=\n]{0,16}?\b(0|zeros?)\b(?![.\w])"
    r"|梯度\s?(?:一直|始终|总是|都|全部|全|均){0,2}(?:变)?[为是成]\s?(0)(?![\d.])",
    BESIDE_HAN,
)
# "Loss_D: 0.4" is a part; other names of this form are settings.
PART = re.compile(
    r"^loss[_ ](?!\w*(?:weight|scale|coef|ratio|lambda|alpha|beta|mask|type|fn|step))"
    r"\w{1,24}$",
    re.I,
)
# "step: 5", "Iter [5/900]", "Epoch [1][5/900]"
STEP = re.compile(
    r"(?:\b(?:global[ _]?step|iteration|iter|step)['\"]?\s?[:=]?\s{0,9}\[?"
    r"|\bepoch[^\]\n]{0,16}\]\s?\[\s{0,9})(\d+)"
)
# "| 1299/82400 [31:29<": a bar of one epoch, or of all steps.
BAR = re.compile(r"\|\s?(\d{1,9})/\d{1,9}\s?\[")
EPOCH = re.compile(r"\bepochs?(?:\(train\))?['\"]?\s?[:=]?\s?\[?(\d+(?:\.\d+)?)")
# "[rank1]: step 5", "rank 1 | step 5": each process has a series of its own.
RANK = re.compile(r"\W{0,3}(?:local[_ ]?)?(?:rank|gpu)[\s_:-]{0,2}(\d{1,4})\b", re.I)
# A line of a later step or epoch was not pasted from the beginning; an epoch with
# decimals counts from 0.
LATE_STEP, LATE_EPOCH, LATE_SHARE = 100, 2, 0.1
# Values that differ by less are one, such as 2.3026 and 2.3025.
SAME = 1e-3
# A title or a warning above the first step says no step of its own.
FEW_LINES = 3


@dataclass(frozen=True)
class Point:
    line: int
    value: float

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.value)


@dataclass
class Figures:
    """`series`: of each metric its points in the order of the log.

    `said`: metrics of which only sentences speak; they know no steps. `late`: lines
    that say that the training has run for a while, `begun`: that it only begins.
    `is_cut`: lines were left out, so that nobody knows how many steps there were.
    """

    series: dict[str, list[Point]] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)
    is_cut: bool = False

    def add(self, kind: str, line: int, number: str) -> None:
        self.series.setdefault(kind, []).append(Point(line, value_of(number)))

    def bad(self, kind: str) -> Point | None:
        """The first value that is not finite."""
        return next((p for p in self.series.get(kind, ()) if not p.is_finite), None)

    @property
    def first_bad(self) -> tuple[str, Point] | None:
        found = [(kind, p) for kind in (LOSS, NORM) if (p := self.bad(kind))]
        # Of one line the loss comes first: the norm follows from it.
        return min(found, key=lambda item: item[1].line) if found else None

    @property
    def is_bad_at_once(self) -> bool:
        """The first step, or all of a log from its beginning, is not finite."""
        first = self.first_bad
        if first is None or self.finite_before(first[0]) or first[0] in self.said:
            return False
        kind, point = first
        lines = [point.line for point in self.series[kind][:FEW_LINES]]
        many = len(lines) > 1 and self.late.isdisjoint(lines)
        return many or point.line in self.begun

    def finite_before(self, kind: str) -> int:
        """Finite values before the first that is none."""
        points = self.series.get(kind, [])
        return next((at for at, p in enumerate(points) if not p.is_finite), len(points))

    def states(self, kind: str) -> set[str]:
        points = self.series.get(kind, [])
        found = {state_of(point.value) for point in points}
        values = [point.value for point in points]
        if len(points) > 2 and max(values) - min(values) <= SAME * abs(values[0]):
            found.add("constant")
        if points and points[-1].is_finite and self.bad(kind):
            found.add("recovers")
        return found

    def growth(self) -> float:
        """How many times larger one of the last three losses is than one before it."""
        values = [p.value for p in self.series.get(LOSS, []) if p.is_finite]
        values = [value for value in values if value > 0]
        last = range(max(len(values) - 3, 1), len(values)) if len(values) > 2 else ()
        return max((values[at] / min(values[:at]) for at in last), default=1.0)

    def falls(self) -> bool:
        """Whether the loss scale falls at the end, at least three times in a row."""
        values = [p.value for p in self.series.get(SCALE, [])]
        steps = [b - a for a, b in pairwise(values) if a != b]
        return len(steps) > 2 and all(step < 0 for step in steps[-3:])


def state_of(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf"
    return "zero" if value == 0 else "finite"


def read_figures(
    lines: Iterable[tuple[int, str]], written: Iterable[tuple[int, str]] = ()
) -> Figures:
    """`written`: sentences of a person, read for what no line of the log measures."""
    figures = read_printed(lines)
    for number, line in written:
        said = Figures()
        add_line(said, number, line)
        for kind, points in said.series.items():
            if kind not in figures.series or kind in figures.said:
                figures.series.setdefault(kind, []).extend(points)
                figures.said.add(kind)
    return figures


def read_printed(lines: Iterable[tuple[int, str]]) -> Figures:
    read = list(lines)
    figures, table = Figures(is_cut=len(read) > HEAD_LINES + TAIL_LINES), None
    if figures.is_cut:
        read = read[:HEAD_LINES] + read[-TAIL_LINES:]
    for number, line in of_one_rank(read):
        heading = heading_of(line)
        if heading:
            table = heading
        elif not (table and add_row(figures, table, number, line)):
            add_line(figures, number, line)
    return figures


def of_one_rank(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Of several ranks the lines of the first that shows a NaN, else of the first."""
    ranks = {number: found[1] for number, line in lines if (found := RANK.match(line))}
    if len(set(ranks.values())) < 2:
        return lines
    bad = (ranks[at] for at, line in lines if at in ranks and says_nan(line.lower()))
    chosen = next(bad, next(iter(ranks.values())))
    return [row for row in lines if ranks.get(row[0], chosen) == chosen]


def add_row(figures: Figures, table: Table, line: int, text: str) -> bool:
    """Whether the line is a row of that table."""
    found = [
        (kind, value)
        for name, value in table.row(text)
        if value and (kind := kind_of(name))
    ]
    if not found or not all(is_number(value) for _kind, value in found):
        return False
    kinds = dict[str, str]()
    for kind, value in found:
        if kind not in kinds or not is_finite(value):
            kinds[kind] = value
    for kind, value in kinds.items():
        figures.add(kind, line, value)
    return True


def add_line(figures: Figures, number: int, line: str) -> None:
    low = line.lower()
    if not any(word in low for word in WORDS):
        return
    if "train loss" in low:
        line = EVALUATED.sub(" ", line)
    pairs = METRIC.findall(line) + row_of(line) + other_forms(line) + pairs_of(line)
    means = MEAN.findall(line)
    pairs += [(name, mean) for name, _value, mean in means]
    found = dict[str, str]()
    for name, value in pairs:
        kind = kind_of(name) or part_of(name, value)
        # The mean in brackets and "NaN loss" say more than the number before them,
        # and the total more than its parts.
        if kind and (kind not in found or not is_finite(value) or name in TOTALS):
            found[kind] = value
    found = in_parts(line) | spoken(line) | found
    found = beside(line, found) | found
    if MEAN_OF_RUN in low and value_of(found.get(LOSS, "0")) > 0:
        del found[LOSS]
    overflow = OVERFLOW.search(line)
    if overflow:
        found[SCALE] = overflow[2]
    for kind, value in found.items():
        figures.add(kind, number, value)
    for name, value, _mean in means:
        # A step before this one was not finite, and this one is.
        if is_finite(value) and (kind := kind_of(name)):
            figures.add(kind, number, value)
    add_place(figures, number, low)


def add_place(figures: Figures, number: int, low: str) -> None:
    """How far the training is by a line in small letters."""
    step, bar, epoch = STEP.search(low), BAR.search(low), EPOCH.search(low)
    if step and int(step[1]) <= 1:
        figures.begun.add(number)
    late = LATE_SHARE if epoch and "." in epoch[1] else LATE_EPOCH
    steps = [int(found[1]) for found in (step, bar) if found]
    if max(steps, default=0) > LATE_STEP or (epoch and float(epoch[1]) >= late):
        figures.late.add(number)


def beside(line: str, found: Mapping[str, str]) -> dict[str, str]:
    """What has no name of its own, or none that `METRIC` knows."""
    alone = NORM_ALONE.search(line) if LOSS in found else None
    scaled = SCALED.search(line)
    values = {NORM: alone and alone[1], SCALE: scaled and scaled[1]}
    return {kind: value for kind, value in values.items() if value}


def in_parts(line: str) -> dict[str, str]:
    """Of parts in a row the total; else the first that is not finite."""
    row = PARTS.search(line)
    if not row:
        return {}
    parts = dict(ONE_PART.findall(row[1]))
    bad = next((value for value in parts.values() if not is_finite(value)), None)
    value = parts.get("total", bad)
    return {LOSS: value} if value else {}


def spoken(line: str) -> dict[str, str]:
    """What is said of a metric without a value: "the loss stays zero"."""
    line = DENIED.sub(" ", line)
    said, zero = SAID.search(line), SAID_OF_NORM.search(line)
    found = {NORM: "0"} if zero else {}
    if said:
        value = next(filter(None, said.groups()))
        found[LOSS] = "0" if value.lower() == "zero" else value
    return found


def value_of(number: str) -> float:
    """Of what `NUMBER` and words match; "nan.0" is how a bar rounds a NaN."""
    if is_finite(number):
        return float(number)
    sign = -1.0 if number.startswith("-") else 1.0
    return sign * (math.inf if "inf" in number.lower()[:4] else math.nan)


def is_finite(value: str) -> bool:
    return not value.lower().lstrip("+-").startswith(("nan", "inf", "non"))


def part_of(name: str, value: str) -> str:
    return LOSS if PART.match(name) and value_of(value) != 0 else ""


def kind_of(name: str) -> str:
    low = name.lower().strip("'\"").replace(" ", "_")
    if NOT_TRAINING.match(low):
        return ""
    last = low.rpartition("/")[2].replace("-", "_")
    return next((kind for kind, form in KINDS if form.search(last)), "")
