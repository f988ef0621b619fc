"""Values that a paste states: dtypes, sizes and rates, each with the line it stands on.

Only what a line says outright is read. The text is untrusted input: every expression
here is bounded, and nothing in the text is ever used as a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from kb.search.reading.symptom_facets import metrics_in

# What programs call the parameters of repros (`kb.choices.PARAMETERS`).
SPELLINGS = {
    "batch": "batch_size train_batch_size micro_batch_size per_device_batch_size "
    "per_device_train_batch_size train_micro_batch_size_per_gpu bsz",
    "channels": "num_channels num_features",
    "classes": "num_classes n_classes num_labels",
    "dropout": "dropout_p attention_dropout attn_dropout attn_pdrop",
    "eps": "adam_epsilon adam_eps",
    "head_dim": "head_dim head_size attention_head_dim d_head",
    "heads": "num_heads num_attention_heads n_heads n_head nhead",
    "length": "seq_len seq_length sequence_length max_seq_len max_seq_length "
    "max_length cutoff_len",
    "lr": "lr learning_rate",
    "vocabulary": "vocab_size",
    "width": "hidden_size hidden_dim d_model embed_dim n_embd",
}
NAME_OF = {text: name for name, texts in SPELLINGS.items() for text in texts.split()}
DTYPES = {
    **dict.fromkeys(("bfloat16", "bf16", "bf16-mixed", "bf16-true"), "bfloat16"),
    **dict.fromkeys(("float16", "half", "fp16", "16-mixed", "16-true"), "float16"),
    **dict.fromkeys(("float32", "float", "fp32", "32-true"), "float32"),
    **dict.fromkeys(("float64", "double", "64-true"), "float64"),
}
OF_TORCH = r"torch\.(bfloat16|float(?:16|32|64)?|half|double)(?!\w)"
WORD = r"(bfloat16|float(?:16|32|64)|bf16|fp(?:16|32))(?!\w)"
PRECISION = r"(bf16|fp16|(?:bf16|16|32|64)-(?:mixed|true))(?!\w)"
SETS = r"['\"`]?\s{0,4}[=:]\s{0,4}['\"]?"
DTYPE = re.compile(
    rf"""
      (?<![\w-])(?:torch_)?dtype{SETS}{OF_TORCH}
    | (?<![\w-])(?:torch_)?dtype{SETS}{WORD}
    | --(?:torch[_-])?dtype[ =]{WORD}
    | \.to\([^()]{{0,80}}?{OF_TORCH}\s?[,)]
    | (?<=\.)(half|bfloat16)\(\)
    | set_default_dtype\(\s?{OF_TORCH}
    | (?<![\w-])(?:--)?(bf16|fp16){SETS}(?:true|1)(?![\w.])
    | --(bf16|fp16)(?:\s+true(?!\w)|\s*\\?$|\s+(?=--))
    | "(bf16|fp16)"\s?:\s?\{{\s?"enabled"\s?:\s?true
    | (?<![\w-])(?:mixed_)?precision{SETS}{PRECISION}
    | --mixed[_-]precision[ =](bf16|fp16)(?!\w)
    """,
    re.VERBOSE | re.IGNORECASE,
)
AMOUNT = r"(\d++(?:\.\d*+)?(?:e[-+]?\d++)?)(?!\w|\.|,\d{3}|\s{0,2}[*/+%])"
NAMED = re.compile(
    rf"(?<![\w-])(?:--([a-z][\w-]{{1,40}}+)[ =]['\"]?"
    rf"|([a-z]\w{{1,40}}+)(?:\s?:\s?(?:int|float)\s?=\s?|{SETS})){AMOUNT}",
    re.IGNORECASE,
)
SIZES = r"(\d++(?>(?:\s?,\s?\d++){1,5}))\s?,?\s?"
# Followed by the end of the sizes, or by an argument with a name.
ENDS = r"(?=[)\]]|(?<=,\s)[a-z_]\w{0,30}=|(?<=,)[a-z_]\w{0,30}=)"
SHAPE = re.compile(
    rf"torch\.(?:randn|rand|zeros|ones|empty|full)\(\s?[(\[]?{SIZES}{ENDS}"
    rf"|torch\.randint\([\w\s,]{{0,40}}?[(\[]{SIZES}[)\]]"
    rf"|(?<!\w)(?:shape|size)\s?[=:]\s?[(\[]{SIZES}[)\]]"
)
# A shape alone on its line: in a complaint it may be anybody's.
PRINTED_SHAPE = re.compile(
    r"\s{0,20}(?:[\w.]{1,40}(?:\(\))?\s?[:=]?\s?)?torch\.Size\(\[" + SIZES + r"\]\)\s*$"
)
# Cheap signs, in lower case: most lines have none and state nothing.
SIGN_LIST = """
dtype float bf16 fp16 half precision torch. shape
size batch bsz num_ num- n_ n- len head hidden dim d_ d- drop adam lr rate cutoff
"""
SIGNS = tuple(SIGN_LIST.split())
MAX_LINES = 4000
# Lines with such a sign that are read closely.
MAX_CLOSELY = 200
MAX_CHARS = 400


class Stated(NamedTuple):
    """A parameter's value, or under the name "shape" sizes; `line` counts from 1."""

    name: str
    value: str | int | float | tuple[int, ...]
    line: int
    text: str


def stated_in(lines: Iterable[tuple[int, str]]) -> list[Stated]:
    """All that the lines state, in their order; the same may stand several times."""
    found: list[Stated] = []
    closely = 0
    for number, line in islice(lines, MAX_LINES):
        text = line[:MAX_CHARS]
        low = text.lower()
        if not any(sign in low for sign in SIGNS):
            continue
        closely += 1
        if closely > MAX_CLOSELY:
            break
        found += (Stated(*value, number, text.strip()) for value in values_of(text))
    return found


def values_of(text: str) -> Iterator[tuple[str, str | int | float | tuple[int, ...]]]:
    """(name, value) of one line."""
    for match in DTYPE.finditer(text):
        yield "dtype", DTYPES[next(filter(None, match.groups())).lower()]
    for flag, name, amount in NAMED.findall(text):
        parameter = NAME_OF.get((flag or name).lower().replace("-", "_"))
        # Beside a loss stands the rate of that step, which a schedule made.
        if parameter and not (parameter == "lr" and metrics_in(text).are_the_line):
            yield parameter, number(amount)
    printed = PRINTED_SHAPE.match(text)
    for match in (*SHAPE.finditer(text), *([printed] if printed else ())):
        sizes = next(filter(None, match.groups()))
        yield "shape", tuple(int(size) for size in sizes.split(","))


def number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)
