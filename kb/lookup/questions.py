"""A question in few words: what a search for them finds orders the causes."""

from __future__ import annotations

import re

from kb.lookup.facts import Facts
from kb.lookup.paste import Paste
from kb.search.index.inverted import Index
from kb.search.ranking.words import match_words
from kb.search.reading.parts import Kind, is_sentence
from kb.search.reading.query import MAX_QUERY, read_query

MOST_FOUND, LEAST_SCORE = 12, 0.2
# A query of fewer terms is a name, which a search lists.
FEWEST_TERMS = 4
# The sign in "4 x A100", which is no word.
TIMES = re.compile(r"(?<=\d) ?[x×] ?(?=[A-Z])")
# Beside any of these words say less; figures may stand in a sentence.
SHOWN = {Kind.CODE, Kind.TENSOR, Kind.PROBE, Kind.CONFIG}
# What a training does wrong, beside a NaN: other questions are none for this site.
GOES_WRONG = re.compile(
    r"(?<![a-z])(?:not|cannot|no|none|null|never|without|wrong|incorrect|inconsist\w*"
    r"|invalid|mismatch\w*|differ\w*|garbage|identical|constant|stuck|flat|plateau\w*|negative"
    r"|zeros?|(?<![\d.])0(?![\d.])|empty|missing|los(?:t|es)|ignor\w*|diverg\w*|explo\w+|spik\w+|jump\w*"
    r"|resets?|drop(?:s|ped)|wors\w+|bad|poor\w*|terribl\w+|low(?:er)?|collaps\w+"
    r"|vanish\w*|dying|dead|overflow\w*|underflow\w*|skip\w*|huge|smaller|larger"
    r"|too (?:large|small|high|low|big)|reproduc\w*|random\w*|stops?|still|stays?"
    r"|remains?|same|always|twice|doubl\w+|increas\w+)(?![a-z])|n.t(?![a-z])"
    r"|[不没未无非错负丢掉跳卡忘跌]|从头|异常|发散|爆炸|溢出|[为是] ?0|全零|失效|重复"
    r"|相同|一样|突然|变[大小差高低慢]|很差|一直|总是|仍然|还是|太[大小]|偏[大小]|翻倍",
    re.IGNORECASE,
)


def found_by_words(paste: Paste, facts: Facts, index: Index) -> dict[str, float]:
    """Records by what a search gives for a question, 0 to 1; none for a longer one."""
    if not is_question(paste, facts):
        return {}
    query = read_query(TIMES.sub(" ", paste.text.strip()))
    if len(query.terms) < FEWEST_TERMS:
        return {}
    matches = match_words(query, index)[:MOST_FOUND]
    return {pk: min(score, 1.0) for pk, score in matches if score >= LEAST_SCORE}


def is_question(paste: Paste, facts: Facts) -> bool:
    """Few words say that something is NaN or goes wrong, and nothing says more."""
    text = paste.text.strip()
    if len(text) > MAX_QUERY or not (facts.says_nan or GOES_WRONG.search(text)):
        return False
    kinds = {part.kind for part in paste.parts}
    measured = Kind.METRICS in kinds and not any(map(is_sentence, text.split("\n")))
    errors = any(not name.endswith("Warning") for name in facts.values["error"])
    return not (kinds & SHOWN or measured or errors or facts.is_finite)
