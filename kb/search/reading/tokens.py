"""Text to tokens: words, identifiers whole and in parts, Chinese in bigrams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# A word keeps the punctuation that identifiers carry inside: grad_output.strides,
# 2.6.0a0+df5bbc09d1, pytorch/pytorch#138581, MHA.cpp:674.
WORD = re.compile(rf"[{HAN}]++|(?>(?:[^\W{HAN}]++[-.:=+/#]*+)+)")
# The same for text of ASCII alone, which most logs are; it takes a fifth of the time.
ASCII_WORD = re.compile(r"\w[\w.:=+/#-]*+", re.ASCII)
HAN_RUN = re.compile(rf"[{HAN}]++")
OUTER = "-.:=+/#_"
CAMEL = re.compile(r"[A-Z]++(?![a-z])|[A-Z][a-z]++|[a-z]++|[0-9]++")
PARTS = re.compile(r"[-.:=+/#]++")
MAX_WORD = 120
CACHED_WORDS = 20_000
MIN_PLURAL = 4
# The 7388 of …/issues/7388 is worth finding, the 2 of 2.6 is not.
MIN_DIGITS = 3

STOP_WORDS = """
a an and are as at be been but by can do does for from had has have how i if in into
is it its my no not of on or our so than that the their then there this to was we were
what when which while will with you your
"""
STOP = frozenset(STOP_WORDS.split())
# Words that stand in at least one in a hundred of the error and warning texts that
# torch itself raises, and the classes it raises: sharing them says little.
COMMON_WORDS = """
after all already arg args argument arguments attribute available backend backward
before both call callable called cannot could cuda data default deprecated device dict
different dim dimension dimensions dtype either element empty equal error exactly
expected expects export failed false file find first float forward found function got
graph group implemented index inf input inputs instead int invalid key kwargs least len
length list match may method mismatch missing mode model module must name nan need nn
none number object one only op output outputs parameter parameters please provided
python pytorch range rank registered required requires return returned runtimeerror
same self set shape should single size source specified state str string support
supported supports target tensor tensors torch true tuple type typeerror types
unexpected unknown unsupported use used userwarning using valid value valueerror values
version warning without yet zero
"""
COMMON = frozenset(COMMON_WORDS.split())

# Raise it whenever a text gives other tokens: indexed documents are then read again.
ALGORITHM = 8


def read_pairs(path: Path) -> dict[int, str]:
    """Traditional -> simplified characters. Its head says where the table is from."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = " ".join(line for line in lines if not line.startswith("#")).split()
    return {ord(pair[0]): pair[1] for pair in pairs}


SIMPLIFIED = read_pairs(Path(__file__).with_name("t2s.txt"))
TRADITIONAL = re.compile(f"[{re.escape(''.join(map(chr, SIMPLIFIED)))}]")


def is_common(token: str) -> bool:
    """Says little of what a text is about."""
    return token in COMMON or (token.isdigit() and len(token) < MIN_DIGITS)


def fold(text: str) -> str:
    """Compatibility forms and traditional script folded; case is kept."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    # To replace takes ten times as long as to look, and few texts have any.
    return text.translate(SIMPLIFIED) if TRADITIONAL.search(text) else text


def runs_of(folded: str) -> list[str]:
    """The runs of Han characters and of everything else that is a word."""
    return (ASCII_WORD if folded.isascii() else WORD).findall(folded)


def is_han(run: str) -> bool:
    return not run.isascii() and HAN_RUN.match(run) is not None


def analyse(text: str) -> list[str]:
    """Tokens of a text to be found, repeats kept.

    A single Chinese character is found as the beginning of a token: of every run
    the last one, which begins no pair, is a token too.
    """
    return list(_tokens(fold(text), for_index=True))


def analyse_query(text: str) -> list[str]:
    """Tokens to look for, each once: a single Chinese character only when alone."""
    return list(dict.fromkeys(_tokens(fold(text), for_index=False)))


def word_tokens(word: str) -> list[str]:
    """Tokens to look for of one word without Chinese in it."""
    return list(_wanted(word[:MAX_WORD]))


def singular(word: str) -> str:
    """A plain English word in lower case without its plural s (Harman's rules)."""
    if len(word) < MIN_PLURAL or not word.endswith("s") or word.endswith(("us", "ss")):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1]


def is_plain(word: str) -> bool:
    """English prose as far as one can see: letters, a capital at most in front."""
    return word.isascii() and word.isalpha() and word[1:] == word[1:].lower()


def words_of(text: str) -> list[str]:
    """The words of `text` as they stand, in lower case; identifiers whole."""
    words = (word.strip(OUTER).lower() for word in runs_of(fold(text)))
    return [word for word in words if word]


def distinct_words_of(text: str) -> set[str]:
    """The same, each once: quicker for a log, whose words repeat."""
    words = {run.strip(OUTER).lower() for run in set(runs_of(fold(text)))}
    return words - {""}


def identifiers(text: str) -> list[str]:
    """The words of `text` that are names rather than prose, in lower case."""
    words = (word.strip(OUTER) for word in runs_of(fold(text)))
    return [word.lower() for word in words if is_identifier(word)]


def is_identifier(word: str) -> bool:
    inner = any(sign in word for sign in "._-:=+/#") or any(c.isdigit() for c in word)
    mixed = word[1:] != word[1:].lower() and not HAN_RUN.match(word)
    return len(word) > 2 and (inner or mixed)


def _tokens(text: str, for_index: bool) -> Iterator[str]:
    for run in runs_of(text):
        if is_han(run):
            yield from _han(run, for_index)
        else:
            word = run.strip(OUTER)[:MAX_WORD]
            yield from _indexed(word) if for_index else _wanted(word)


def _han(run: str, for_index: bool) -> Iterator[str]:
    for at in range(len(run) - 1):
        yield run[at : at + 2]
    if for_index or len(run) == 1:
        yield run[-1]


@lru_cache(maxsize=CACHED_WORDS)
def _indexed(word: str) -> tuple[str, ...]:
    """Tokens to be found by; words repeat within a record and between records."""
    return tuple(_word(word, for_index=True))


@lru_cache(maxsize=CACHED_WORDS)
def _wanted(word: str) -> tuple[str, ...]:
    """Tokens to look for; words repeat within a log and between logs."""
    return tuple(_word(word, for_index=False))


def _word(word: str, for_index: bool) -> Iterator[str]:
    # Cut, it may end in what was inside.
    word = word.rstrip(OUTER)
    whole = word.lower()[:MAX_WORD].rstrip(OUTER)
    if not whole or whole in STOP:
        return
    yield whole
    if is_plain(word):
        if for_index and singular(whole) != whole:
            yield singular(whole)
        return
    seen = {whole}
    for piece in filter(None, PARTS.split(word)):
        for part in _parts(piece):
            is_small_number = part.isdigit() and len(part) < MIN_DIGITS
            if part not in seen and part not in STOP and not is_small_number:
                seen.add(part)
                yield part


def _parts(piece: str) -> Iterator[str]:
    """grad_output -> grad_output, grad, output; SqrtBackward0 -> …, sqrt, backward."""
    yield piece.lower()
    for word in piece.split("_"):
        if len(word) > 1:
            yield word.lower()
            for part in CAMEL.findall(word):
                if len(part) > 1:
                    yield part.lower()
