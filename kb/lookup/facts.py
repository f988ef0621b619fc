"""What a paste says, read once: named facts, each with the line that states it.

Everything else asks them: tellers of symptoms, first checks, the page, the filters.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kb.environments import hardware
from kb.environments.environment import Environment
from kb.lookup.hardware import ENV_LINE, add_packages, cards_in, devices
from kb.lookup.paste import Paste
from kb.lookup.steps import figures_document
from kb.records.tellers import Values
from kb.search.reading.code import called_in, passed_in_code, places_of_names
from kb.search.reading.figures import (
    BECOMES,
    DENIED,
    LOSS,
    NORM,
    SCALE,
    Figures,
    read_figures,
)
from kb.search.reading.names import PREFIX, PRINTED, made_by, names_in, operator_name
from kb.search.reading.parts import Kind, is_sentence, is_spoken
from kb.search.reading.probe import says_only_itself
from kb.search.reading.symptom_facets import NUMBER, says_nan
from kb.search.reading.tables import heading_of

TABLES: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "facts.toml").read_text("utf-8")
)
PATTERNS = {
    (name, value): re.compile(pattern, re.ASCII)
    for name, table in TABLES.items()
    for value, pattern in table.items()
}
# Characters of a paste that are read for names: a long log repeats itself.
HEAD, TAIL = 12_000, 6_000
CODE_CHARS = 12_000
VALUES = re.compile(rf"(?<![A-Za-z]){NUMBER}", re.IGNORECASE)
# A first line without is a title: "Grad=inf and Loss=nan with mixed precision".
NUMBERED = re.compile(r"\d|^\W*\w+\W+nan\W*$", re.IGNORECASE)
GIVES = re.compile(r"[\d:=|,{]|：")
# "NLL Loss: 2.3" is a column of a log, no call of nll_loss.
LOSSES = re.compile(r"\b[A-Za-z]{2,12}[ _][Ll]oss\b")
MEASURED = re.compile(r"(?:loss|norm)\W{0,3}[:= ]\s?tensor\(", re.IGNORECASE)
BACKWARD = re.compile(r"(?<!grad_fn=<)\b([A-Z]\w{2,60}?Backward)\d{0,3}\b")
SETTINGS = (
    r"(?:amp|fp16|bf16|fp8|half|mixed_precision|autocast|deepspeed|fsdp|q?lora"
    r"|gradient_checkpointing|activation_checkpointing|load_in_[48]bit"
    r"|resume_from_checkpoint|torch_compile)"
)
ABSENT = re.compile(
    r"^[^\n]{0,80}:[ \t]*(?:n/?a|false|no|none|disabled|could not collect"
    r"|not (?:found|installed|available))[ \t]*,?$|(?<![\w-])--[\w-]++[ =]false\b"
    # Set to nothing: "fp16=False, bf16=True", "use_amp = False", "--no-amp"
    rf"|(?:\b|_){SETTINGS}(?:_\w{{1,20}})?['\"]?[ \t]*[:=][ \t]*"
    r"(?:false|none|null|\[\]|''|\"\")(?![\w.])|\bfp16_opt_level\b"
    r"|\bautocast\([^()\n]{0,60}\benabled=false\)"
    rf"|(?<![\w-])--no[-_]{SETTINGS}\b"
    # A person denies it: "I do not use amp or fp16", "没有使用混合精度"
    r"|(?<!if )(?<!when )\b(?:i|we) (?:do not|don't|did not|didn't|am not|are not) "
    r"us(?:e|ing)\b[^.;,\n]{0,60}"
    r"|(?<!如果)(?:没有?使?用|未使用|不使用)到?\s?(?:任何)?(?:混合精度|半精度|量化|多卡|梯度"
    r"|torch\.compile|[a-z]{0,8}(?:amp|fp16|bf16|lora|zero|speed))[^，。；\n]{0,24}"
    # A name that somebody gave: "/opt/conda/envs/vae/bin/python", "C:\\Users\\dice"
    r"|(?<=[/\\]envs[/\\])[\w.-]+|(?<=[/\\]users[/\\])[\w.-]+|(?<=/home/)[\w.-]+"
    # What else could be set: "dtype: bf16  # choices: [fp16, bf16]"
    r"|(?<=\S)[ \t]+#[^\n]{0,40}?(?:\bchoices?\b|\boptions?\b|\be\.g\.|\w\|\w)[^\n]*$",
    re.MULTILINE,
)
# Names that stand in most training code and tell no bug.
COMMON_LIST = """
backward grad_fn requires_grad zero_grad step cuda cpu to view init device dtype loss
randn zeros ones rand arange manual_seed nn parameter parameters linear model detach
float16 bfloat16 float32 isnan isfinite train eval append squeeze unsqueeze transpose
allclose grad sum item reshape contiguous module optim any all inf nan na_ns na_n
grad_norm loss base gpu gpus nvidia py_torch ge_force lo_ra qlo_ra train training tensor
amp lora peft logging optimizer data batch_size values items com org io py max min abs
mean gtx rtx runtime_error value_error utils criterion loss_fn loss_func
"""
COMMON = frozenset(COMMON_LIST.split())
WRITTEN = frozenset((Kind.CODE, Kind.CONFIG, Kind.TENSOR, Kind.WORDS))
Json = dict[str, Any]


@dataclass
class Facts:
    """`values`: fact -> value -> line of the log (0: the environment's box)."""

    values: dict[str, dict[str, int]]
    numbers: dict[str, float]
    figures: Figures
    environment: Environment
    text: str = field(repr=False, default="")
    # A person wrote a part of it: code, a configuration, a question.
    is_written: bool = True

    @cached_property
    def low(self) -> str:
        return self.text.lower()

    def __getitem__(self, name: str) -> Values:
        """What is known of a fact: words, a number, or nothing."""
        if name in self.numbers:
            return self.numbers[name]
        if name == "card":
            return tuple(hardware.names_of(self.values.get(name, ())))
        return self.low if name == "says" else tuple(self.values.get(name, ()))

    def has(self, name: str, *values: str) -> bool:
        return not set(values).isdisjoint(self.values.get(name, ()))

    def cards_like(self, value: str) -> list[str]:
        """Cards, and what they are, that a requirement such as "sm_90" names."""
        cards = hardware.names_of(self.values.get("card", ()))
        known = [*cards, *self.values.get("arch", ())]
        return [name for name in known if value.lower() in name.lower()]

    def line_of(self, name: str, value: str) -> int:
        return self.values.get(name, {}).get(value, ENV_LINE)

    def without(self, dropped: Iterable[str]) -> Facts:
        """What a reader took away: "device=mps", "package=peft"."""
        for item in dropped:
            name, _sign, value = item.partition("=")
            self.values.get(name, {}).pop(value, None)
            if name == "package":
                self.environment = self.environment.without(value)
        return self

    def apart_from(self, paste: Paste, numbers: Collection[int]) -> Facts:
        """What the paste says elsewhere than in these lines."""
        text = self.text
        for number, line in paste.lines:
            if number in numbers and line.strip():
                text = text.replace(line, "")
        values = {
            name: {value: at for value, at in lines.items() if at not in numbers}
            for name, lines in self.values.items()
        }
        return replace(self, values=values, text=text)

    @property
    def names_operators(self) -> bool:
        """A person does, by more than words that any log has, or an error's class."""
        named = self.values["named"].keys() - COMMON
        return self.is_written and not all(name.endswith("_error") for name in named)

    @property
    def is_finite(self) -> bool:
        """Figures were logged, and nothing speaks of one that is not finite."""
        figures = self.figures
        logged = any(figures.series.get(kind) for kind in (LOSS, NORM))
        zero = "zero" in figures.states(LOSS)
        return bool(logged and not (zero or figures.said or self.says_nan))

    @cached_property
    def says_nan(self) -> bool:
        """Whether anything in it is not finite, or is said to be."""
        return says_nan(DENIED.sub(" ", self.low))


def read_facts(paste: Paste, env: str, environment: Environment) -> Facts:
    text = shortened(told_by(paste))
    values = {name: dict[str, int]() for name in TABLES}
    for (name, value), line in stated(paste, text, env):
        values[name].setdefault(value, line)
    figures = read_figures(*lines_of_figures(paste))
    figures.is_cut |= bool(paste.reading.cut_lines)
    numbers = measure(figures, values)
    add_packages(values, environment, dict(cards_in(paste)))
    add_calls(values, paste)
    values["error"] = {
        line.class_name: line.number
        for line in paste.reading.key_lines
        if line.class_name
    }
    values["frame"] = dict(paste.reading.frames)
    values["node"] = dict(nodes_in(paste, text))
    values["probe"] = dict(probe_facts(paste))
    values["law"] = laws_in(paste)
    values["device"] = devices(values, environment)
    written = is_written(paste, figures)
    said = f"{text}\n{env[:HEAD]}"
    return Facts(values, numbers, figures, environment, said, written)


def is_written(paste: Paste, figures: Figures) -> bool:
    """Whether a person says or measures something, or the probe names but an op.

    What a trainer prints of itself is no measurement.
    """
    probe = paste.reading.probe
    if probe and probe.words and not probe.is_explained:
        return True
    kinds = {part.kind for part in paste.parts}
    measured = Kind.METRICS in kinds and not any(figures.series.values())
    return measured or not WRITTEN.isdisjoint(kinds)


def told_by(paste: Paste) -> str:
    """The text, line by line, without the words that are the probe's own."""
    kind = paste.kind_of_line
    return "\n".join(
        "" if kind.get(number) == Kind.PROBE and says_only_itself(line) else line
        for number, line in paste.lines
    )


def shortened(text: str) -> str:
    return text if len(text) < HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"


def lines_of_figures(
    paste: Paste,
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Lines that a program printed, and those that a person wrote: a title, a sentence.

    A program repeats the shape of its lines, in any language.
    """
    lines = [row for row in paste.lines if not is_code(paste, *row)]
    shapes = Counter(VALUES.sub("#", line.strip()) for _number, line in lines)
    written = [
        (number, line)
        for number, line in lines
        if shapes[VALUES.sub("#", line.strip())] == 1
        and not heading_of(line)
        and (
            paste.kind_of_line.get(number) == Kind.WORDS
            or is_said(line)
            or (number == lines[0][0] and not NUMBERED.search(line))
        )
    ]
    numbers = {number for number, _line in written}
    return [row for row in lines if row[0] not in numbers], written


def is_said(line: str) -> bool:
    """A title, a sentence, or a remark without a number: "Loss NaN during training"."""
    spoken = is_sentence(line) or (is_spoken(line) and "it/s" not in line)
    if heading_of(line):
        return False
    spoken = spoken or bool(BECOMES.search(line))
    return spoken or line.lstrip().startswith("# ") or not GIVES.search(line)


def is_code(paste: Paste, number: int, line: str) -> bool:
    """Nothing that a program measured; a printed tensor may be a loss."""
    kind = paste.kind_of_line.get(number)
    return kind == Kind.CODE or (kind == Kind.TENSOR and not MEASURED.search(line))


def line_at(paste: Paste, text: str, at: int) -> int:
    """The line that this place of the text, shortened or not, stands on."""
    if at <= HEAD:
        return paste.lines[text.count("\n", 0, at)][0]
    return paste.lines[-1 - text.count("\n", at)][0]


def stated(paste: Paste, text: str, env: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Each (fact, value) that either box states, with its first line."""
    low, below = without_absent(text.lower()), without_absent(env[:HEAD].lower())
    for key, pattern in PATTERNS.items():
        found = pattern.search(low)
        if found:
            yield key, line_at(paste, low, found.start())
        elif below and pattern.search(below):
            yield key, ENV_LINE


def without_absent(low: str) -> str:
    """Blank for what is not there, "ROCM used to build PyTorch: N/A", or no fact."""
    return ABSENT.sub(lambda found: " " * len(found[0]), low)


def measure(figures: Figures, values: dict[str, dict[str, int]]) -> dict[str, float]:
    """Numbers of the figures; their states are words: `loss == "nan"`."""
    numbers: dict[str, float] = {}
    for kind in (LOSS, NORM, SCALE):
        points = figures.series.get(kind, [])
        line = points[0].line if points else ENV_LINE
        values[kind] = dict.fromkeys(figures.states(kind) or {"unlogged"}, line)
        if points:
            numbers[f"last_{kind}"] = points[-1].value
    if len(values["onset"]) > 1:
        values["onset"] = {}  # the text says both
    values["first_bad"] = {k: p.line for k, p in filter(None, [figures.first_bad])}
    if figures.first_bad and figures.first_bad[0] not in figures.said:
        kind, point = figures.first_bad
        numbers["finite_steps"] = figures.finite_before(kind)
        if numbers["finite_steps"]:
            values["onset"] = {"later": point.line}
        elif figures.is_bad_at_once:
            values["onset"] = {"first": point.line}
    if LOSS in figures.series:
        numbers["growth"] = figures.growth()
    if figures.falls():
        values[SCALE]["falls"] = figures.series[SCALE][0].line
    return numbers


def add_calls(values: dict[str, dict[str, int]], paste: Paste) -> None:
    """Operators that code calls, and those that sentences and tensors name."""
    calls: dict[str, int] = {}
    passed: dict[str, int] = {}
    names: dict[str, int] = {}
    kinds = {part.kind for part in paste.parts}
    for part in paste.parts:
        lines = paste.lines_of(part)
        text = "\n".join(line for _number, line in lines)[:CODE_CHARS]
        if part.kind == Kind.CODE:
            for name, line in places_of_names(text):
                calls.setdefault(name, lines[line - 1][0])
            passed |= dict.fromkeys(passed_in_code(text), part.first)
        elif part.kind == Kind.TENSOR:
            names |= dict.fromkeys(made_by(text), part.first)
            names |= dict.fromkeys(names_in(PRINTED.sub(" ", text)), part.first)
        elif part.kind == Kind.PROBE and paste.reading.probe:
            text = paste.reading.probe.words
            names |= dict.fromkeys(probe_names(text), part.first)
        elif part.kind in (Kind.WORDS, Kind.CONFIG, Kind.LOG, Kind.METRICS):
            if part.kind == Kind.METRICS:
                text = LOSSES.sub(" ", text)
            names |= dict.fromkeys(names_in(text), part.first)
            if Kind.CODE not in kinds:  # else it speaks of that
                said = set(called_in(text)) - {PREFIX + name for name in COMMON}
                calls = dict.fromkeys(said, part.first) | calls
    values["call"] = {name.removeprefix(PREFIX): line for name, line in calls.items()}
    values["passed"] = passed
    values["named"] = {name.removeprefix(PREFIX): line for name, line in names.items()}


def probe_names(words: str) -> Iterator[str]:
    """Its ops stand alone on lines, its quoted source as code does."""
    for line in words.splitlines():
        yield from [operator_name(line)] if line.isidentifier() else names_in(line)


def nodes_in(paste: Paste, text: str) -> Iterator[tuple[str, int]]:
    """Nodes of the backward pass that anomaly mode, the probe or a tensor names."""
    for facet, line in paste.reading.facets.items():
        if facet.startswith(("nan_in_", "inf_in_")):
            yield facet[7:], line
    for found in BACKWARD.finditer(text):
        yield found[1], line_at(paste, text, found.start())


def probe_facts(paste: Paste) -> Iterator[tuple[str, int]]:
    for facet, line in paste.reading.facets.items():
        if facet.startswith(("probe_", "rerun_")):
            yield facet.removeprefix("probe_"), line


def laws_in(paste: Paste) -> dict[str, int]:
    """The law of arithmetic that a report of the probe names."""
    line, name = paste.reading.probe.law if paste.reading.probe else (0, "")
    return {name: line} if name else {}


SHOWN = ("trainer", "method", "device", "card", "dtype", "mode", "call", "node")


def document(facts: Facts) -> Json:
    """As an answer has them; `line`: of the log, null for the environment's box."""
    named = [
        {"fact": name, "value": value, "line": line or None}
        for name in SHOWN
        for value, line in facts.values.get(name, {}).items()
        if name != "call" or value not in COMMON | facts.values["passed"].keys()
    ]
    env = facts.environment
    packages = (
        {"torch": env.torch_raw, **env.packages} if env.torch_raw else env.packages
    )
    return {
        "named": named,
        "packages": dict(packages),
        "whole_list": env.is_complete,
        "figures": figures_document(facts.figures),
    }
