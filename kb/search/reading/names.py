"""Names of operators and modules, one for every way of writing them.

`F.cross_entropy`, `torch.nn.functional.cross_entropy`, `nn.CrossEntropyLoss` and
"CrossEntropy" are one name to whoever looks for a record: `op:cross_entropy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from kb.search.reading.glossary import SAME_NAMES
from kb.search.reading.tokens import CACHED_WORDS, MAX_WORD, fold

PREFIX = "op:"
# And the bracket of a call. Chinese begins without a space: "grad_norm为nan".
NAME = re.compile(
    r"(?<![\w.])([A-Za-z_]\w{0,80}+(?>(?:\.[A-Za-z_]\w{0,80}+){0,8}))(\(?)", re.ASCII
)
# KLDivLoss -> KL, Div, Loss; BatchNorm1d -> Batch, Norm1d; LeakyReLU -> Leaky, ReLU.
PIECES = re.compile(
    r"(?:[PR]?Re|Si)LU\d?|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*[a-z]?(?![a-z])|[A-Z]+\d*|\d+"
)
# What a name ends in that its sister does without: nn.KLDivLoss is F.kl_div,
# SqrtBackward0 the backward of sqrt, masked_fill_ the masked_fill in place.
ENDINGS = re.compile(r"(?:_loss|_backward\d?|_default)+$")
# How a tensor is printed: the op that made it tells, the rest says nothing.
GRAD_FN = re.compile(r"grad_fn=<([A-Za-z]\w{0,80})>")
PRINTED = re.compile(
    r"\b(?:tensor\(|grad_fn=<[^>]{0,99}>|requires_grad=True|device='\w+:?\d*')"
)
MIN_LETTERS = 3
# Names that stand in every file of Python.
EVERYWHERE_LIST = """
self super init main print range len zip map int float str list dict tuple set bool
enumerate isinstance getattr forward torch tensor item size shape
"""
EVERYWHERE = frozenset(EVERYWHERE_LIST.split())
# Operators that no sentence means otherwise: "eigh backward is nan".
OPERATORS_LIST = """
acos arccos asin arcsin atan atanh arctan arctanh acosh asinh cdist cumprod cumsum
eigh eigvalsh eigvals einsum erfinv expm gelu softplus softmax logsoftmax logsumexp
logaddexp logsigmoid sigmoid tanh relu rsqrt sqrt svd svdvals pinv cholesky logdet
slogdet xlogy logit argmax argmin topk bincount groupnorm layernorm batchnorm rmsnorm
nanmean matmul
"""
OPERATORS = frozenset(OPERATORS_LIST.split())


def names_in(text: str) -> Iterator[str]:
    """The operators and modules that a text names, repeats kept."""
    for written, called in NAME.findall(fold(text)):
        if called or written in OPERATORS or "." in written or is_name(written):
            name = operator_name(written)
            if name:
                yield name


def made_by(printed: str) -> list[str]:
    """`op:` names of what made the tensors of a printout: WhereBackward0 -> where."""
    names = map(operator_name, GRAD_FN.findall(printed))
    return [name for name in names if name]


def as_written(name: str, text: str) -> str:
    """How the text first writes a name: ze_ro -> ZeRO."""
    written = (word for word, _called in NAME.findall(text))
    has = (word for word in written if operator_name(word) == PREFIX + name)
    return next(has, name).rpartition(".")[2]


def is_name(word: str) -> bool:
    """Written as code: snake_case, or with capitals inside."""
    inner = word.strip("_")
    return "_" in inner or inner[1:] != inner[1:].lower()


@lru_cache(maxsize=CACHED_WORDS)
def operator_name(name: str) -> str:
    """`op:` and the canonical name; "" for names that say nothing."""
    last = snake(name.rpartition(".")[2][:MAX_WORD])
    last = ENDINGS.sub("", last) or last
    last = SAME_NAMES.get(last, last)
    if len(last) < MIN_LETTERS or last in EVERYWHERE:
        return ""
    return PREFIX + last


def snake(name: str) -> str:
    """MultiheadAttention -> multihead_attention; masked_fill_ -> masked_fill."""
    name = name.strip("_")
    if name == name.lower() or name == name.upper():
        return name.lower()
    pieces = (part for word in name.split("_") for part in PIECES.findall(word))
    return "_".join(pieces).lower()
