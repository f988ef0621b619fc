"""Which symptoms of many causes a paste shows, and which causes its facts speak for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from kb.lookup.facts import Facts, is_said
from kb.lookup.known import names_of
from kb.lookup.paste import Paste, kinds_of
from kb.models import Record, Symptom
from kb.records import tellers
from kb.search.index.generation import current_generation
from kb.search.reading.figures import DENIED, WORDS
from kb.search.reading.log import key_line
from kb.search.reading.names import PRINTED
from kb.search.reading.parts import Kind, is_sentence
from kb.search.reading.query import MAX_QUERY, Query, Term, read_query
from kb.search.reading.signatures import Signature, read_signature
from kb.search.reading.symptom_facets import metrics_in, says_nan

# What a reader answered to a cause's question: it decides.
YES = 10.0
MAX_PARTS_READ = 12
# A paste of no more that names a metric is a question: "loss spike".
FEW_WORDS = 5
CALLS = "call =="
MEASURED = ("law", "probe")
TRAINER, OWN_DATA = "trainer", "own_data"
# Facts that are words of a person.
WORDED = ("says", "told")
NO_LOSS = 'loss == "unlogged"'
# The symptom of a NaN of which nothing more is known.
ANY_NAN = "loss-nan"
SENTENCE_END = re.compile(r"(?<=\w)[.!?;]\s(?=[A-Z#*-])|[。！？；]")
Json = dict[str, Any]


@dataclass(frozen=True)
class Cause:
    """A cause of a symptom, held against facts.

    `because`: predicates that hold; `against`: the one that rules it out, or "".
    """

    slug: str
    entry: Json
    symptom: Symptom
    because: tuple[str, ...]
    against: str = ""
    said: float = 0.0

    @property
    def is_called(self) -> bool:
        """The code calls what one of its tellers names."""
        return any(CALLS in one for one in self.because)

    @property
    def is_measured(self) -> bool:
        """One of its tellers names what the probe found out."""
        terms = chain.from_iterable(map(tellers.parse, self.because))
        return any(term.fact in MEASURED for term in terms)

    @property
    def strength(self) -> float:
        """How many predicates or facts speak for it.

        Two trainers, one on top of the other, are one. When it began is half of one,
        as it fits many causes; so is whose data it is.
        """
        parsed = [tellers.parse(one) for one in self.because]
        trainers = sum(len(t) == 1 and t[0].fact == TRAINER for t in parsed)
        terms = set(chain.from_iterable(parsed))
        named = {t if t.fact != TRAINER else None for t in terms}
        begins = {term.fact for term in terms} == {"onset"}
        weak = begins + any(term.value == OWN_DATA for term in terms)
        return max(len(parsed) - max(trainers - 1, 0), len(named)) - weak / 2

    @property
    def order(self) -> tuple[bool, float, int]:
        people = int(self.entry.get("people", 1))
        return bool(self.against), -self.strength - self.said, -people


class Shown(NamedTuple):
    """A symptom of the paste, and the lines that print it: none where facts say so."""

    symptom: Symptom
    lines: tuple[int, ...]


def of_paste(paste: Paste, facts: Facts) -> list[Shown]:
    """Those that the paste shows, or that its words ask for; messages first."""
    reading = paste.reading
    lines = [*reading.key_lines, *reading.unwrapped, *reading.quotes]
    # Figures that are not finite say which symptom it is; words would add another's.
    texts = () if facts.figures.first_bad else written_in(paste)
    asked = [
        tokens_of(read_query(DENIED.sub(" ", PRINTED.sub(" ", text[:MAX_QUERY]))))
        for text in texts
    ]
    found: list[Shown] = []
    silent: list[Shown] = []
    for row in every():
        printed = {number for number, letters in printed_in(row, lines) if letters}
        signs = [sign for sign in row.signatures if holds(sign, facts)]
        phrases = filter(tells_alone, row.words)
        is_named = any(is_asked(phrase, had) for phrase in phrases for had in asked)
        if printed or is_named or not all(map(is_silent, signs)):
            found.append(Shown(row, tuple(sorted(printed))))
        elif signs:
            silent.append(Shown(row, ()))
    # Few words that name only a NaN: "3090 fine 4090 nan", or an exception.
    if not (found or silent) and facts.says_nan and is_of_nan(paste):
        found = of_any_nan()
    return sorted(
        found or silent,
        key=lambda row: (not row.lines, -specific(row.symptom, facts)),
    )


def written_in(paste: Paste) -> Iterator[str]:
    """What a person wrote: sentences, comments in code, few words; each by itself."""
    kinds = (Kind.WORDS, Kind.LOG, Kind.CODE)
    parts = [part for part in paste.parts if part.kind in kinds]
    messages = {line.number for line in paste.reading.key_lines if line.class_name}
    few = is_short(paste) and any(map(paste.text.lower().__contains__, WORDS))
    few = few or "words" in kinds_of(paste)
    has_code = any(part.kind == Kind.CODE for part in parts)
    for part in parts[:MAX_PARTS_READ]:
        lines = [text for at, text in paste.lines_of(part) if at not in messages]
        if part.kind == Kind.WORDS:
            yield from SENTENCE_END.split(" ".join(" ".join(lines).split()))
        elif part.kind == Kind.CODE:
            comments = (text.partition("#")[2] for text in lines)
            yield from (text for text in comments if is_sentence(text))
        else:
            read = lines[:MAX_PARTS_READ]
            yield from (
                t for t in read if few or is_sentence(t) or is_title(t, has_code)
            )


def is_short(paste: Paste) -> bool:
    return len(paste.text.split()) <= FEW_WORDS


def is_of_nan(paste: Paste) -> bool:
    """It is few words, or the message of an exception says that something is NaN."""
    lines = (line for line in paste.reading.key_lines if line.class_name)
    return is_short(paste) or any(says_nan(line.text.lower()) for line in lines)


def is_title(text: str, has_code: bool) -> bool:
    """No number, and it speaks of a NaN, ends as a sentence does, or follows code."""
    ends = has_code or text.endswith((".", "?", "!"))
    return is_said(text) and (ends or says_nan(text.lower()))


def specific(row: Symptom, facts: Facts) -> int:
    """How many facts its strictest signature that holds asks for: the rarer first."""
    asked = (len(tellers.parse(s["when"])) for s in row.signatures if holds(s, facts))
    return max(asked, default=1)


def is_silent(sign: Json) -> bool:
    """It holds where the paste has no figures: what else it shows says more."""
    return NO_LOSS in sign.get("when", "")


def holds(sign: Json, facts: Facts) -> bool:
    return "when" in sign and tellers.holds(sign["when"], facts) is True


def printed_in(row: Symptom, lines: Sequence[Any]) -> Iterator[tuple[int, bool]]:
    for sign in row.signatures:
        for mark in signs_of(sign["text"]) if "text" in sign else ():
            if mark.kind == "facet":
                continue
            for line in lines:
                yield line.number, mark.letters in line.letters


def causes_of(
    shown: Iterable[Shown], facts: Facts, said: Mapping[str, bool]
) -> list[Cause]:
    """Each cause once, best first; what a fact rules out comes last."""
    best: dict[str, Cause] = {}
    for symptom, _lines in shown:
        for entry in symptom.causes:
            cause = held(entry, symptom, facts, said.get(entry["slug"]))
            known = best.get(cause.slug)
            best[cause.slug] = cause if known is None else both(known, cause)
    return sorted(best.values(), key=lambda cause: cause.order)


def causes_shown(
    shown: Sequence[Shown], facts: Facts, said: Mapping[str, bool]
) -> list[Cause]:
    """Those of the symptoms. Where nothing tells them apart, what speaks for a cause of
    any NaN counts, too: "rotations by arccos, gradients nan".
    """
    found = causes_of(shown, facts, said)
    if not found or not facts.says_nan or any(cause.because for cause in found):
        return found
    told = [row for row in causes_of(of_any_nan(), facts, said) if row.strength >= 1]
    slugs = {cause.slug for cause in told}
    rest = (cause for cause in found if cause.slug not in slugs)
    return sorted([*told, *rest], key=lambda cause: cause.order)


def of_any_nan() -> list[Shown]:
    return [Shown(row, ()) for row in every() if row.slug == ANY_NAN]


def both(first: Cause, second: Cause) -> Cause:
    """A cause of two symptoms: as the better one says, with what speaks for either."""
    best, other = sorted((first, second), key=lambda cause: cause.order)
    because = dict.fromkeys((*best.because, *other.because))
    return replace(best, because=tuple(because))


def causes_in_code(facts: Facts, said: Mapping[str, bool]) -> list[Cause]:
    """Causes of symptoms that are not shown, where the code calls what they name.

    Where anything is NaN, also those of a NaN loss of which facts speak.
    """
    asked = facts.values.get("call") or facts.says_nan
    rows = [Shown(row, ()) for row in every() if asked]
    any_nan = of_any_nan() if facts.says_nan else []
    told = {row.slug for row in causes_of(any_nan, facts, said) if row.because}
    found = causes_of(rows, facts, said)
    return [row for row in found if row.is_called or row.slug in told]


def held(entry: Json, symptom: Symptom, facts: Facts, said: bool | None) -> Cause:
    because = tuple(
        one for one in entry.get("when", ()) if tellers.holds(one, facts) is True
    )
    never = entry.get("never", ())
    against = next((one for one in never if tellers.holds(one, facts) is True), "")
    if said is False:
        against = "said"
    return Cause(entry["slug"], entry, symptom, because, against, YES if said else 0.0)


def is_told(cause: Cause, facts: Facts) -> bool:
    """Whether these facts, too, say more for it than a word as of "time left"."""
    told = (one for one in cause.because if tellers.holds(one, facts) is True)
    return any(t.fact not in WORDED for one in told for t in tellers.parse(one))


def of_words(text: str) -> list[Symptom]:
    """Those that the words of a search ask for."""
    text = text[:MAX_QUERY]
    letters, facets = key_line(0, "", text).letters, metrics_in(text).facets
    had = tokens_of(read_query(text))
    return [
        row
        for row in every()
        if is_printed(row, facets, letters)
        or (had and any(is_asked(phrase, had) for phrase in row.words))
    ]


def every() -> tuple[Symptom, ...]:
    """All of them, read again only after records or symptoms changed."""
    written, _tallies = current_generation()
    return rows_at(written)


@lru_cache(maxsize=1)
def rows_at(_written: int) -> tuple[Symptom, ...]:
    return tuple(Symptom.objects.all())


def is_printed(row: Symptom, facets: Collection[str], letters: str) -> bool:
    """Whether all that the line of one of its signatures says is there."""
    return any(
        all(
            mark.text in facets if mark.kind == "facet" else mark.letters in letters
            for mark in signs_of(sign["text"])
        )
        for sign in row.signatures
        if "text" in sign
    )


def is_of_many(signature: str) -> bool:
    """Whether the line of a record says what a symptom of many causes prints."""
    letters = key_line(0, "", signature).letters
    return any(is_printed(row, (), letters) for row in every())


@lru_cache(maxsize=256)
def signs_of(line: str) -> tuple[Signature, ...]:
    return tuple(read_signature("message", line))


def tokens_of(query: Query) -> set[str]:
    return set(chain.from_iterable(term.tokens for term in query.terms))


def is_asked(phrase: str, had: set[str]) -> bool:
    """Whether every word of a name is there, as it is or by a synonym."""
    return all(is_had(term, had) for term in terms_of(phrase))


@lru_cache(maxsize=1024)
def terms_of(phrase: str) -> tuple[Term, ...]:
    return read_query(phrase).terms


@lru_cache(maxsize=1024)
def tells_alone(phrase: str) -> bool:
    """Not one word, and no number: a long paste has both anyhow; figures are read."""
    terms = terms_of(phrase)
    return len(terms) > 1 and not any(
        token.isdigit() for term in terms for token in term.tokens
    )


def is_had(term: Term, had: set[str]) -> bool:
    if term.in_parts:
        return True
    return not had.isdisjoint(term.tokens) or any(
        had.issuperset(synonym) for synonym in term.synonyms
    )


def records_of(slugs: Collection[str]) -> dict[str, Record]:
    """The visible record that each of these slugs names, as its slug or an alias."""
    names = names_of(current_generation())
    rows = Record.objects.visible().defer("html")
    found = rows.in_bulk([names[slug] for slug in slugs if slug in names])
    return {slug: found[names[slug]] for slug in slugs if names.get(slug) in found}
