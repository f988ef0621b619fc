"""The operators and modules that a piece of Python names.

Read as tokens and not as a tree: what people paste is seldom a whole program. Comments
and strings name nothing; a name that an import gives to another stands for that other;
a function or a variable that the piece makes itself is none of torch's.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kb.search.reading.names import is_name, names_in, operator_name

MAX_CHARS = 40_000
CALLED = re.compile(r"(?<![\w.])[A-Za-z_]\w*+(?>(?:\.\w+)+)\(", re.ASCII)
SILENT = frozenset((tokenize.COMMENT, tokenize.STRING, tokenize.NL, tokenize.INDENT))


class Token(NamedTuple):
    """A token of Python, "" at the end of a statement; `line`: from 1."""

    text: str
    line: int


def names_of_code(source: str) -> list[str]:
    """`op:` names as the index has them, repeats kept."""
    return [name for name, _line in places_of_names(source)]


def called_in(sentence: str) -> Iterator[str]:
    """Operators that it writes as code does: "since I take torch.log(t)"."""
    return names_in(" ".join(CALLED.findall(sentence)))


def places_of_names(source: str) -> list[tuple[str, int]]:
    """The same, each with its line from 1."""
    tokens = tokens_of_code(source[:MAX_CHARS])
    words = [token.text for token in tokens]
    own = {after for before, after in pairwise(words) if before in ("def", "class")}
    made = assigned_in(words) - passed_in_code(source)
    called_as, imports = imported_as(words), False
    names = []
    for at, (word, line) in enumerate(tokens):
        begins = at == 0 or not words[at - 1]
        imports = word in ("import", "from") if begins else imports
        if imports:
            continue
        follows = words[at + 1] if at + 1 < len(words) else ""
        if word == "**" and is_power(words[at - 1] if at else "", follows):
            names.append((operator_name("pow"), line))
        dotted = at > 0 and words[at - 1] == "."
        if not word.isidentifier() or (word in own and not dotted):
            continue
        if word in made and follows != "(":
            continue
        word = called_as.get(word, word)
        if follows == "(" or dotted or is_name(word):
            names.append((operator_name(word), line))
    return [(name, line) for name, line in names if name]


def assigned_in(words: Sequence[str]) -> set[str]:
    """`y = net(x)` and `self.y = net(x)` -> {"y"}; not `f = compile(f)`."""
    found = set()
    for line in " ".join(word or "\n" for word in words).splitlines():
        name, sign, value = line.strip().removeprefix("self . ").partition(" = ")
        if sign and name.isidentifier() and name not in value.split():
            found.add(name)
    return found


def passed_in_code(source: str) -> frozenset[str]:
    """The names of arguments that its calls give by name."""
    words = [token.text for token in tokens_of_code(source[:MAX_CHARS])]
    return frozenset(
        words[at - 1]
        for at in range(2, len(words))
        if words[at] == "=" and words[at - 2] in ("(", ",")
    )


def is_power(before: str, follows: str) -> bool:
    """Of `**`: neither unpacking nor a square, which is multiplied."""
    return before not in ("", "(", ",") and not follows.isdigit()


@lru_cache(maxsize=16)
def tokens_of_code(source: str) -> tuple[Token, ...]:
    """Up to where it is no Python; kept, as several ask what one paste says."""
    return tuple(read_tokens(source))


def read_tokens(source: str) -> Iterator[Token]:
    """Prompts of a console are left out."""
    lines = (
        line.removeprefix(">>> ").removeprefix("... ") for line in source.splitlines()
    )
    reader = io.StringIO("\n".join(lines)).readline
    try:
        for token in tokenize.generate_tokens(reader):
            if token.type == tokenize.NEWLINE:
                yield Token("", token.start[0])
            elif token.type not in SILENT and token.string.strip():
                yield Token(token.string, token.start[0])
    except (tokenize.TokenError, SyntaxError):
        return  # cut off in the middle: what stands above is read


def imported_as(words: Sequence[str]) -> dict[str, str]:
    """`from torch import logsumexp as lse` -> {"lse": "logsumexp"}."""
    return {
        words[at + 1]: words[at - 1]
        for at, word in enumerate(words)
        if word == "as" and 0 < at < len(words) - 1 and words[at - 1].isidentifier()
    }
