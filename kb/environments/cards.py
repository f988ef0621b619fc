"""The GPUs that a person's words name, without those that are said to be fine. Pure.

"3090 上正常，4090 上 nan" speaks of a problem on one card, and of another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kb.environments.hardware import NUMBER_ONLY, gpu_names

LINE_CHARS = 300
SENTENCE = re.compile(
    r"[;；。!！?？]|\.\s|\b(?:but|while|whereas|however)\b|但|而(?!且)|不过",
    re.IGNORECASE,
)
# A word for how it went may end a clause: "3090上正常4090上nan", "3090 fine 4090 nan".
CLAUSE = re.compile(
    r"([,、]|\band\b|，|(?<=正常)|(?<=问题)|(?<=报错)|(?<=fine)(?=\s\d)|(?<=ok)(?=\s\d))",
    re.IGNORECASE,
)
LISTS = (",", "、", "and")
FINE = re.compile(
    r"(?<!not )(?<!n't )\b(?:work(?:s|ed|ing)?|fine|ok|okay|normal(?:ly)?"
    r"|correct(?:ly)?|smoothly|success\w*)\b"
    r"|\b(?:no|without(?: any)?) (?:\w+ )?(?:nans?|issues?|problems?|errors?)\b"
    r"|(?:n't|\bnot) (?:\w+ )?(?:happen|occur|appear|reproduce)"
    r"|(?<!不)正常|没有?问题|(?:不会|没有?)(?:再)?(?:出现|发生)|可以(?:跑|训练)",
    re.IGNORECASE,
)
WRONG = re.compile(
    r"(?<![a-z])nans?(?![a-z])|n't\b|\bnot\b|\b(?:appear|occur|happen|fail|wrong|error"
    r"|diverge|issue|problem)|不正常|报错|异常|不行|出现|发散|不可以",
    re.IGNORECASE,
)
# "There is no A100 for me."
MISSING = re.compile(r"(?:\b(?:no|without|have an?)|没有?)\s?$", re.IGNORECASE)
# What people say round a card that is but a number.
BEFORE = re.compile(
    r"(?:\b(?:on|in|with|using|use|have|has|an?|my|our|the|single|one|two|four|eight"
    r"|six|nvidia|geforce|gpu)\s|\d\s?[x*×]|[卡号U][:：]|[卡用张块在的和与上台换成到是])\s?$",
    re.IGNORECASE,
)
AFTER = re.compile(
    r"\s?(?:(?:gpus?|cards?|fine|ok|works?|nan|fails?)\b|[上卡显就没跑]|训练(?![样数步集次]))",
    re.IGNORECASE,
)
# "with 3060 images"
COUNTED = re.compile(r"\s(?!gpus|cards|works|fails)[a-z]{3,}s\b", re.IGNORECASE)
COUNTER = re.compile(r"\b(?:batch|step|iter\w*|epoch|seed|size|loss|lr)\W{0,3}$", re.I)


class Card(NamedTuple):
    name: str
    line: int
    is_fine: bool


def cards_told(lines: Iterable[tuple[int, str, bool]]) -> list[Card]:
    """Of lines, each with its number and whether a person wrote it."""
    found = [
        Card(name, number, is_fine)
        for number, text, spoken in lines
        for name, is_fine in named_in(text[:LINE_CHARS], spoken)
    ]
    fine = {card.name for card in found if card.is_fine}
    return [card for card in found if card.name not in fine]


def named_in(text: str, spoken: bool) -> Iterator[tuple[str, bool]]:
    """Cards, and whether all is well on them."""
    for sentence in SENTENCE.split(text):
        pieces = CLAUSE.split(sentence)
        clauses, signs = pieces[::2], pieces[1::2]
        states = [state_of(clause) for clause in clauses]
        names = [list(cards_in(clause, spoken)) for clause in clauses]
        for at, cards in enumerate(names):
            state = states[at]
            # What follows says it of a list of cards, or if it names no other card.
            after = at
            while state is None and after + 1 < len(clauses):
                listed = signs[after].lower() in LISTS
                after += 1
                if names[after] and not listed:
                    break
                state = states[after]
            if state is None:
                said = (one for one in reversed(states[:at]) if one is not None)
                state = next(said, False)
            yield from ((name, state) for name in cards)


def state_of(clause: str) -> bool | None:
    """All is well, something is wrong, or nothing is said."""
    if FINE.search(clause):
        return True
    return False if WRONG.search(clause) else None


def cards_in(clause: str, spoken: bool) -> Iterator[str]:
    named = [name for name in gpu_names(clause) if not name.isdigit()]
    for name in named:
        if not MISSING.search(clause[: clause.find(name)]):
            yield name
    if spoken and not named:
        for found in filter(partial(is_card, clause), NUMBER_ONLY.finditer(clause)):
            yield f"{'GTX' if found[1].startswith('16') else 'RTX'} {found[1]}"


def is_card(text: str, match: re.Match[str]) -> bool:
    before, after = text[: match.start(1)], text[match.end() :]
    if COUNTED.match(after) or COUNTER.search(before):
        return False
    return bool(BEFORE.search(before) or AFTER.match(after))
