"""The passage of a record that shows what was looked for, as HTML with <mark>."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.search.reading.query import Query
from kb.search.reading.tokens import HAN_RUN, fold

BEFORE, LENGTH, WORD = 60, 220, 20
# Enough to choose the best place; a common word stands in a text a hundred times.
MAX_PLACES = 60
MARKUP = re.compile(r"^(?:```\w*$|#{1,6} )|`", re.MULTILINE)
BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
# Score of a passage for the whole query, for a word of it, for a synonym.
WORTH = {"whole": 6, "word": 4, "synonym": 1}


@dataclass(frozen=True)
class Folded:
    """A text as it is searched, and where each of its characters is from."""

    text: str
    origin: Sequence[int]


class FoldedCharacters(dict[str, str]):
    """Each character as it is searched, worked out when it is first met."""

    def __missing__(self, char: str) -> str:
        # Lower case may be longer than what it stands for (Turkish i).
        self[char] = fold(char).lower()
        return self[char]


FOLDED = FoldedCharacters()


def folded(text: str) -> Folded:
    """Folded and in lower case, character by character."""
    if text.isascii():
        return Folded(text.lower(), range(len(text) + 1))
    characters = list(map(FOLDED.__getitem__, text))
    folded_text = "".join(characters)
    # No character folds to nothing: equal lengths mean one for one.
    if len(folded_text) == len(text):
        return Folded(folded_text, range(len(text) + 1))
    origin = [at for at, new in enumerate(characters) for _ in new]
    return Folded(folded_text, [*origin, len(text)])


class Place(NamedTuple):
    """Where a match stands in a text."""

    start: int
    end: int
    worth: int


def snippet(record: Record, query: Query, lang: str) -> SafeString:
    """The best passage in `lang`, else the summary.

    Of the other language where a reader of Chinese, or who asks in it, finds one there.
    """
    pattern = pattern_of(query)
    summary = conditional_escape(record.text("summary", lang))
    if pattern is None:
        return summary
    enough = WORTH["word"] * len(query.terms)
    passage = best_passage(own_passages(record, lang), pattern, enough)
    if not passage and (lang == "zh" or HAN_RUN.search(query.text)):
        passage = best_passage(other_passages(record, lang), pattern, enough)
    return passage or summary


def best_passage(
    texts: Iterable[str], pattern: re.Pattern[str], enough: int
) -> SafeString | None:
    """The first passage with the highest score; stops at a score of `enough`."""
    best, most = None, 0
    for text in texts:
        places = places_in(text, pattern)
        start, worth = best_window(text, places)
        if worth > most:
            end = start + LENGTH
            inside = [item for item in places if start <= item.start < item.end <= end]
            best, most = marked(text, start, inside), worth
        if most >= enough:
            break
    return best


def pattern_of(query: Query) -> re.Pattern[str] | None:
    """The whole query, its words and their synonyms, all of them escaped."""
    own = [token for term in query.terms for token in term.tokens]
    synonyms = [
        token
        for term in query.terms
        for synonyms in term.synonyms
        for token in synonyms
    ]
    groups = {"whole": [re.escape(query.text)]} if len(query.terms) > 1 else {}
    groups["word"] = [literal(token) for token in longest_first(own)]
    groups["synonym"] = [literal(token) for token in longest_first(synonyms)]
    alternatives = [
        f"(?P<{name}>{'|'.join(any_)})" for name, any_ in groups.items() if any_
    ]
    return re.compile("|".join(alternatives)) if alternatives else None


def longest_first(tokens: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(tokens), key=len, reverse=True)


def literal(token: str) -> str:
    """A token as a pattern: in Chinese anywhere, otherwise as a word or a part."""
    start = token.removesuffix("*")
    if HAN_RUN.match(start):
        return re.escape(start)
    end = "" if start != token else r"(?![^\W_])"
    return rf"(?<![^\W_]){re.escape(start)}{end}"


def places_in(text: str, pattern: re.Pattern[str]) -> list[Place]:
    """The matches of the pattern; adjacent ones are merged."""
    searched = folded(text)
    places: list[Place] = []
    at = 0
    while len(places) < MAX_PLACES and (match := pattern.search(searched.text, at)):
        start = searched.origin[match.start()]
        end = searched.origin[match.end() - 1] + 1
        worth = WORTH[match.lastgroup or "synonym"]
        if places and start <= places[-1].end:
            last = places.pop()
            start, end = last.start, max(end, last.end)
            worth = max(worth, last.worth)
        places.append(Place(start, end, worth))
        # Pairs of Chinese characters overlap.
        at = match.start() + 1 if HAN_RUN.match(match[0]) else match.end()
    return places


def best_window(text: str, places: list[Place]) -> tuple[int, int]:
    """(start, worth) of the piece of LENGTH characters with most different words."""
    best = (0, 0)
    for at, first in enumerate(places):
        begin = max(0, first.start - BEFORE)
        if begin:  # at a word, where one begins soon
            soon = min(first.start, begin + WORD)
            begin = max(begin, text.find(" ", begin, soon) + 1)
        inside = {
            text[item.start : item.end].lower(): item.worth
            for item in places[at:]
            if item.end <= begin + LENGTH
        }
        worth = sum(inside.values())
        if worth > best[1]:
            best = (begin, worth)
    return best


def marked(text: str, start: int, places: Iterable[Place]) -> SafeString:
    """`text` from `start` on, with these places in <mark>."""
    end = min(len(text), start + LENGTH)
    pieces = [format_html("{}", "…" if start else "")]
    at = start
    for place in places:
        passage = text[place.start : place.end]
        pieces.append(format_html("{}<mark>{}</mark>", text[at : place.start], passage))
        at = place.end
    gap = text.rfind(" ", max(at, end - WORD), end) if end < len(text) else -1
    end = gap if gap >= 0 else end
    pieces.append(format_html("{}{}", text[at:end], "…" if end < len(text) else ""))
    return SafeString("".join(pieces))


def own_passages(record: Record, lang: str) -> list[str]:
    """Texts to quote from, prose first and literal strings last."""
    passages = [record.text("summary", lang)]
    passages += [plain(record.text(name, lang)) for name in SECTIONS]
    passages += [
        entry["text"] for entry in record.signatures if entry.get("kind") != "facet"
    ]
    passages += [entry["apply"] for entry in record.workarounds]
    passages += [*record.aliases, *(entry["title"] for entry in record.sources)]
    return passages + [entry["url"] for entry in record.sources if entry.get("url")]


def other_passages(record: Record, lang: str) -> list[str]:
    (code,) = set(LANGS) - {lang}
    passages = [record.text("title", code), record.text("summary", code)]
    return passages + [plain(record.text(name, code)) for name in SECTIONS]


def plain(markdown: str) -> str:
    """As it reads, without what makes headings and code of it."""
    return " ".join(BOLD.sub(r"\1", MARKUP.sub("", markdown)).split())
