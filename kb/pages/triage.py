"""Five questions about a run that went wrong, and the records they leave.

Each answer speaks for or against a record by what the record says of itself: its
symptom class, components, preconditions and facets. Nothing is concluded from what a
record does not say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _, gettext_lazy

from kb.choices import SymptomClass
from kb.models import Record

Text = str | Promise
COMPILED = frozenset(("inductor", "dynamo", "torch.compile", "compile", "aot_autograd"))
DISTRIBUTED = frozenset(("ddp", "fsdp", "nccl", "distributed", "zero", "rccl"))
OPTIMIZERS = frozenset(("optim", "optimizer", "adam"))
NAN = (SymptomClass.NAN_FORWARD, SymptomClass.NAN_GRAD)
DTYPES = {
    "float16": re.compile(r"(?<![a-z])(?:fp16|float16|half)(?!\w)", re.IGNORECASE),
    "bfloat16": re.compile(r"(?<![a-z])(?:bf16|bfloat16)(?!\w)", re.IGNORECASE),
    "float32": re.compile(r"(?<![a-z])(?:fp32|tf32|float32)(?!\w)", re.IGNORECASE),
    "float8": re.compile(r"(?<![a-z])(?:fp8|float8)", re.IGNORECASE),
}


@dataclass(frozen=True)
class Option:
    value: str
    label: Text


@dataclass(frozen=True)
class Question:
    """`name` is the parameter in the address; an answer of "" is "not known"."""

    name: str
    text: Text
    options: tuple[Option, ...]


QUESTIONS = (
    Question(
        "when",
        gettext_lazy("When is the first bad value?"),
        (
            Option("first", gettext_lazy("in the very first step")),
            Option("later", gettext_lazy("later: steps before it were good")),
        ),
    ),
    Question(
        "shows",
        gettext_lazy("What is bad?"),
        (
            Option("loss", gettext_lazy("the loss is nan or inf")),
            Option("norm", gettext_lazy("only grad_norm is; the loss is finite")),
            Option("values", gettext_lazy("no nan: wrong, zero or missing gradients")),
            Option("error", gettext_lazy("an error is raised")),
        ),
    ),
    Question(
        "ranks",
        gettext_lazy("On which ranks?"),
        (
            Option("all", gettext_lazy("on all of them")),
            Option("some", gettext_lazy("only on some")),
            Option("single", gettext_lazy("there is one process only")),
        ),
    ),
    Question(
        "compiled",
        gettext_lazy("With torch.compile?"),
        (
            Option("only", gettext_lazy("only when compiled")),
            Option("eager", gettext_lazy("also without it, or never used")),
        ),
    ),
    Question(
        "dtype",
        gettext_lazy("In which type does the model compute?"),
        tuple(Option(name, name) for name in DTYPES),
    ),
)


@dataclass(frozen=True)
class Reason:
    """What an answer says about a record, for or against it."""

    fits: bool
    text: str


@dataclass(frozen=True)
class Candidate:
    record: Record
    reasons: list[Reason]

    @property
    def fitting(self) -> list[Reason]:
        return [reason for reason in self.reasons if reason.fits]

    @property
    def contrary(self) -> list[Reason]:
        return [reason for reason in self.reasons if not reason.fits]


@dataclass(frozen=True)
class Gone:
    """The records that one reason rules out; each counts under its first one."""

    why: str
    rows: list[Candidate]


@dataclass(frozen=True)
class AnsweredQuestion:
    question: Question
    answer: str


@dataclass(frozen=True)
class Triage:
    asked: list[AnsweredQuestion]
    left: list[Candidate] = field(default_factory=list)
    ruled_out: list[Candidate] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    total: int = 0

    @property
    def is_answered(self) -> bool:
        return any(row.answer for row in self.asked)

    @property
    def gone(self) -> list[Gone]:
        """What was ruled out by its reason, the one that rules out most first."""
        groups: dict[str, list[Candidate]] = {}
        for row in self.ruled_out:
            groups.setdefault(row.contrary[0].text, []).append(row)
        gone = [Gone(why, rows) for why, rows in groups.items()]
        return sorted(gone, key=lambda group: -len(group.rows))


def build(parameters: Mapping[str, str]) -> Triage:
    """The page for the answers in an address; values nobody offers are not answers."""
    asked = [
        AnsweredQuestion(question, answer_to(question, parameters))
        for question in QUESTIONS
    ]
    answers = {row.question.name: row.answer for row in asked if row.answer}
    records = list(Record.objects.visible())
    if not answers:
        return Triage(asked, total=len(records))
    every = [Candidate(record, list(reasons(record, answers))) for record in records]
    left = [row for row in every if not row.contrary]
    left.sort(key=lambda row: (-len(row.fitting), row.record.id))
    return Triage(
        asked,
        left=left,
        ruled_out=[row for row in every if row.contrary],
        advice=list(advice(answers)),
        total=len(records),
    )


def answer_to(question: Question, parameters: Mapping[str, str]) -> str:
    value = parameters.get(question.name, "")
    return value if value in {option.value for option in question.options} else ""


def reasons(record: Record, answers: Mapping[str, str]) -> Iterable[Reason]:
    for name, judge in JUDGES.items():
        if name in answers:
            reason = judge(record, answers)
            if reason:
                yield reason


def facets_of(record: Record) -> set[str]:
    return {entry["text"] for entry in record.signatures if entry["kind"] == "facet"}


def by_time(record: Record, answers: Mapping[str, str]) -> Reason | None:
    first, shows = answers["when"] == "first", answers.get("shows")
    if first and shows == "loss" and record.symptom_class == SymptomClass.NAN_GRAD:
        return Reason(False, _("it starts in a gradient; the first loss has seen none"))
    if OPTIMIZERS & set(record.components):
        if first and shows == "loss":
            return Reason(False, _("it needs an optimizer step before"))
        return None if first else Reason(True, _("it starts in an optimizer step"))
    return None


def by_symptom(record: Record, answers: Mapping[str, str]) -> Reason | None:
    return SHOWN[answers["shows"]](record)


def shows_loss(record: Record) -> Reason | None:
    kind, facets = record.symptom_class, facets_of(record)
    if {"loss_nan", "loss_inf"} & facets:
        return Reason(True, _("its loss becomes nan or inf"))
    if kind == SymptomClass.NAN_FORWARD:
        return Reason(True, _("its forward pass gives nan"))
    if kind == SymptomClass.NAN_GRAD:
        return Reason(True, _("its gradients become nan, the loss one step later"))
    if kind in (SymptomClass.LOST_GRAD, SymptomClass.ERROR):
        return Reason(False, _("it makes no nan"))
    return None


def shows_norm(record: Record) -> Reason | None:
    kind, facets = record.symptom_class, facets_of(record)
    if any(facet.startswith("grad_norm_") for facet in facets):
        return Reason(True, _("its grad_norm becomes nan or inf"))
    if kind == SymptomClass.NAN_GRAD:
        return Reason(True, _("its gradients become nan, its forward pass is finite"))
    if kind == SymptomClass.NAN_FORWARD:
        return Reason(False, _("its forward pass, and so the loss, is nan as well"))
    if kind in (SymptomClass.LOST_GRAD, SymptomClass.ERROR):
        return Reason(False, _("it makes no nan"))
    return None


def shows_values(record: Record) -> Reason | None:
    if record.symptom_class in NAN:
        zero = "loss_zero" in facets_of(record)
        return None if zero else Reason(False, _("it makes nan"))
    if record.symptom_class == SymptomClass.ERROR:
        return Reason(False, _("it raises an error"))
    return Reason(True, _("it makes values wrong without a nan"))


def shows_error(record: Record) -> Reason | None:
    messages = [row["text"] for row in record.signatures if row["kind"] == "message"]
    if any("Error" in text for text in messages):
        return Reason(True, _("an error message is known for it"))
    if record.symptom_class in (SymptomClass.SILENT_WRONG, SymptomClass.WRONG_GRAD):
        return Reason(False, _("it raises nothing"))
    return None


SHOWN = {
    "loss": shows_loss,
    "norm": shows_norm,
    "values": shows_values,
    "error": shows_error,
}


def by_ranks(record: Record, answers: Mapping[str, str]) -> Reason | None:
    if not DISTRIBUTED & set(record.components):
        return None
    if answers["ranks"] == "single":
        return Reason(False, _("it needs several processes"))
    return Reason(True, _("it is about several processes"))


def by_compiler(record: Record, answers: Mapping[str, str]) -> Reason | None:
    flags = {row["value"] for row in record.preconditions if row["key"] == "flag"}
    compiled = bool(COMPILED & (set(record.components) | flags))
    if answers["compiled"] == "only":
        if compiled:
            return Reason(True, _("it needs torch.compile"))
        return Reason(False, _("it would show without torch.compile as well"))
    return Reason(False, _("it needs torch.compile")) if compiled else None


def by_dtype(record: Record, answers: Mapping[str, str]) -> Reason | None:
    needed = dtypes_of(record)
    if not needed:
        return None
    names = ", ".join(sorted(needed))
    if answers["dtype"] in needed:
        return Reason(True, _("it happens in %s") % names)
    return Reason(False, _("it happens only in %s") % names)


def dtypes_of(record: Record) -> set[str]:
    """The types that a record demands, empty where it demands none."""
    values = [row["value"] for row in record.preconditions if row["key"] == "dtype"]
    values += [row["value"] for row in record.preconditions if "float8" in row["value"]]
    return {name for name, word in DTYPES.items() if any(map(word.search, values))}


Judge = Callable[[Record, Mapping[str, str]], Reason | None]
JUDGES: dict[str, Judge] = {
    "shows": by_symptom,
    "when": by_time,
    "dtype": by_dtype,
    "compiled": by_compiler,
    "ranks": by_ranks,
}


def advice(answers: Mapping[str, str]) -> Iterable[str]:
    """What to look at besides the records."""
    if answers.get("ranks") == "some":
        yield _(
            "Only some ranks: their batch or their node. Run that batch alone with the "
            "probe; a rerun that differs points to the node."
        )
    if answers.get("when") == "first" and answers.get("shows") == "loss":
        yield _(
            "The first loss is bad before any update: look at the batch, the weights "
            "as loaded, masks without an open position, and labels all ignored."
        )
    if answers.get("when") == "later" and answers.get("dtype") == "float16":
        yield _(
            "float16 ends at 65504: a loss scale that falls step by step says that "
            "gradients overflow, which GradScaler skips by design."
        )
    if answers.get("compiled") == "only":
        yield _(
            "Try backend='aot_eager': if it is good there, Inductor's code makes the "
            "difference; TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1 tells rounding apart."
        )


def address_for(query: Mapping[str, Any]) -> str:
    """The triage page with what a look-up has seen already answered."""
    facets = set(query["facets"])
    answers = {}
    if any(name.startswith("loss_") and name != "loss_zero" for name in facets):
        answers["shows"] = "loss"
    elif any(name.startswith("grad_norm_") for name in facets):
        answers["shows"] = "norm"
    if {"compiled", "nan_in_CompiledFunctionBackward"} & facets:
        answers["compiled"] = "only"
    for dtype in DTYPES:
        if any(name.startswith(f"dtype_{dtype}") for name in facets):
            answers["dtype"] = dtype
    address = reverse("triage")
    return f"{address}?{urlencode(answers)}" if answers else address
