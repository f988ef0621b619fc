"""Text to tokens: words, identifiers whole and in parts, Chinese in bigrams."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# A word keeps the punctuation that identifiers carry inside: grad_output.strides,
# 2.6.0a0+df5bbc09d1, pytorch/pytorch#138581, MHA.cpp:674.
WORD = re.compile(rf"[{HAN}]++|(?:[^\W{HAN}]++[-.:=+/#]*+)++")
HAN_RUN = re.compile(rf"[{HAN}]++")
OUTER = "-.:=+/#_"
CAMEL = re.compile(r"[A-Z]++(?![a-z])|[A-Z][a-z]++|[a-z]++|[0-9]++")
PARTS = re.compile(r"[-.:=+/#]++")
MAX_WORD = 120
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

# The characters by which the terms of this field differ in traditional script.
TRADITIONAL = str.maketrans(
    "損張類錯誤編譯訓練檢點為層顯數據顆圖節導環寫讀輸歸約簡複雜運調試驗實測"
    "啟動設備機驅內線異記憶體網絡權優應對無變換轉並開關閉長間後執",
    "损张类错误编译训练检点为层显数据颗图节导环写读输归约简复杂运调试验实测"
    "启动设备机驱内线异记忆体网络权优应对无变换转并开关闭长间后执",
)


def is_common(token: str) -> bool:
    """Says little of what a text is about."""
    return token in COMMON or (token.isdigit() and len(token) < MIN_DIGITS)


def fold(text: str) -> str:
    """Compatibility forms and traditional script folded; case is kept."""
    return unicodedata.normalize("NFKC", text).translate(TRADITIONAL)


def analyse(text: str) -> list[str]:
    """Tokens of a text to be found, repeats kept."""
    return list(_tokens(fold(text), single_han=True))


def analyse_query(text: str) -> list[str]:
    """Tokens to look for, each once: a single Chinese character only when alone."""
    return list(dict.fromkeys(_tokens(fold(text), single_han=False)))


def words_of(text: str) -> list[str]:
    """The words of `text` as they stand, in lower case; identifiers whole."""
    words = (word.strip(OUTER).lower() for word in WORD.findall(fold(text)))
    return [word for word in words if word]


def identifiers(text: str) -> list[str]:
    """The words of `text` that are names rather than prose, in lower case."""
    words = (word.strip(OUTER) for word in WORD.findall(fold(text)))
    return [word.lower() for word in words if is_identifier(word)]


def is_identifier(word: str) -> bool:
    inner = any(sign in word for sign in "._-:=+/#") or any(c.isdigit() for c in word)
    mixed = word[1:] != word[1:].lower() and not HAN_RUN.match(word)
    return len(word) > 2 and (inner or mixed)


def _tokens(text: str, single_han: bool) -> Iterator[str]:
    for found in WORD.finditer(text):
        run = found[0]
        if HAN_RUN.match(run):
            yield from _han(run, single_han)
        else:
            yield from _word(run.strip(OUTER)[:MAX_WORD])


def _han(run: str, singles: bool) -> Iterator[str]:
    if singles or len(run) == 1:
        yield from run
    for at in range(len(run) - 1):
        yield run[at : at + 2]


def _word(word: str) -> Iterator[str]:
    whole = word.lower()
    if not whole or whole in STOP:
        return
    yield whole
    seen = {whole}
    for piece in PARTS.split(word):
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
