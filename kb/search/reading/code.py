"""The operators and modules that a piece of Python names.

Read as tokens and not as a tree: what people paste is seldom a whole program. Comments
and strings name nothing; a name that an import gives to another stands for that other;
a function that the piece defines itself is none of torch's.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from itertools import pairwise

from kb.search.reading.names import is_name, operator_name

MAX_CHARS = 40_000
SILENT = frozenset((tokenize.COMMENT, tokenize.STRING, tokenize.NL, tokenize.INDENT))


def names_of_code(source: str) -> list[str]:
    """`op:` names as the index has them, repeats kept."""
    words = list(words_of_code(source[:MAX_CHARS]))
    own = {after for before, after in pairwise(words) if before == "def"}
    called_as = imported_as(words)
    names = []
    for at, word in enumerate(words):
        follows = words[at + 1] if at + 1 < len(words) else ""
        if word == "**" and is_power(words[at - 1] if at else "", follows):
            names.append(operator_name("pow"))
        dotted = at > 0 and words[at - 1] == "."
        if not word.isidentifier() or (word in own and not dotted):
            continue
        word = called_as.get(word, word)
        if follows == "(" or dotted or is_name(word):
            names.append(operator_name(word))
    return [name for name in names if name]


def is_power(before: str, follows: str) -> bool:
    """Of `**`: neither unpacking nor a square, which is multiplied."""
    return before not in ("", "(", ",") and not follows.isdigit()


def words_of_code(source: str) -> Iterator[str]:
    """The tokens up to where it is no Python; prompts of a console are left out."""
    lines = (
        line.removeprefix(">>> ").removeprefix("... ") for line in source.splitlines()
    )
    reader = io.StringIO("\n".join(lines)).readline
    try:
        for token in tokenize.generate_tokens(reader):
            if token.type not in SILENT and token.string.strip():
                yield token.string
    except (tokenize.TokenError, SyntaxError):
        return  # cut off in the middle: what stands above is read


def imported_as(words: list[str]) -> dict[str, str]:
    """`from torch import logsumexp as lse` -> {"lse": "logsumexp"}."""
    return {
        words[at + 1]: words[at - 1]
        for at, word in enumerate(words)
        if word == "as" and 0 < at < len(words) - 1 and words[at - 1].isidentifier()
    }
