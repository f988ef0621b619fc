"""The lines of a pasted log against the signatures of documents. Pure; no database.

A line is held against a signature: the share of the signature's telling words that the
line holds says how sure a match is (`Why`). Which records a log shows, and in which
order, is decided in `kb.search.ranking.logs`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from operator import itemgetter

from kb.search.index.documents import Document
from kb.search.index.inverted import Index
from kb.search.reading.error_ids import contradict
from kb.search.reading.log import KeyLine, Reading, key_line
from kb.search.reading.masks import family
from kb.search.reading.signatures import Signature, plain

# TITLE: of a thread, which people shorten as they repeat it.
MATCH, TITLE, POSSIBLE = 0.8, 0.7, 0.55
# Above every share: the whole signature stands in the line.
WORD_FOR_WORD = 2.0
# What a pasted line says beyond the signature counts against it, but less.
EXTRA = 0.3
# However much it says: people paste a message with a paragraph around it.
MOST_EXTRA = 0.2
# Lines that complain of nothing are read closely only where a rare word stands.
CLOSE_LINES = 20
HALF = 0.45
# What is exchanged counts from this share of the signature's worth.
OTHER_WORDS = 0.01
MIN_SAME = 12
CUT_LETTERS = 30
WORD = re.compile(r"[^\W\d_]{2,}")
# What varies in a message may be longer in one line than in the other.
STRETCH, SLACK = 1.5, 3


class Confidence(StrEnum):
    """Confidence of a match, best first."""

    EXACT = "exact"
    MATCH = "match"
    POSSIBLE = "possible"
    NONE = "none"


COMMON_STATES = ("_nan", "_inf", "_zero")
SURE = (Confidence.EXACT, Confidence.MATCH)
BY_CONFIDENCE = {confidence: at for at, confidence in enumerate(Confidence)}


@dataclass(frozen=True)
class Why:
    """The pasted line (from 1) and the signature that met."""

    line: int
    signature: str
    confidence: Confidence
    coverage: float
    by_name: bool = False
    last: int = 0

    @property
    def last_line(self) -> int:
        return self.last or self.line

    def order(self) -> tuple[int, bool, float, int, bool]:
        """Of one line's figures the one that tells: a norm of sqrt(2), not NaN or 0."""
        rank = BY_CONFIDENCE[self.confidence]
        common = self.signature.endswith(COMMON_STATES)
        return rank, not self.by_name, -self.coverage, self.line, common


def shared_names(documents: Iterable[Document]) -> set[str]:
    """Official names in the signatures of more than one record."""
    names_seen: set[str] = set()
    shared: set[str] = set()
    for document in documents:
        names = {name for sign in document.signatures for name in sign.ids}
        shared |= names & names_seen
        names_seen |= names
    return shared


def all_lines(reading: Reading) -> Iterator[KeyLine]:
    yield from reading.key_lines
    yield from reading.unwrapped
    yield from reading.quotes


class LineSearch:
    """Lines joined into one text: one `str.find` looks through all of them."""

    def __init__(self, lines: list[str]) -> None:
        self.text = "\n".join(lines)
        self.starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def find(self, substring: str) -> int | None:
        """The number, from 0, of the first line that contains `substring`."""
        return next(iter(self.find_any([substring], 1)), None)

    def find_any(self, substrings: Iterable[str], limit: int) -> list[int]:
        """At most `limit` numbers of lines that contain any of the substrings."""
        numbers: set[int] = set()
        for substring in substrings:
            at = self.text.find(substring) if substring else -1
            while at >= 0 and len(numbers) < limit:
                number = bisect_right(self.starts, at) - 1
                numbers.add(number)
                at = self.text.find(substring, self.starts[number + 1])
        return sorted(numbers)


class Lines:
    """The lines of one log, ready to be compared with the signatures of documents."""

    def __init__(
        self, reading: Reading, index: Index, documents: list[Document]
    ) -> None:
        self.reading = reading
        self.lines = list(all_lines(reading))
        self.index = index
        self.shared = shared_names(documents)
        self.holders: dict[str, list[int]] = defaultdict(list)
        for at, line in enumerate(self.lines):
            for token in line.tokens:
                self.holders[token].append(at)
        self.all_tokens = frozenset(self.holders)
        signs = [sign for document in documents for sign in document.signatures]
        self.weighed = index.weighed(signs)
        self.worth = [self.value(line.tokens) for line in self.lines]
        self.complaints = LineSearch(
            [plain(line.text) for line in self.lines if not line.quoted]
        )
        self.letters = LineSearch([line.letters for line in self.lines])
        self.long = [
            line.letters
            for line in self.lines
            if len(line.letters) >= CUT_LETTERS and not line.quoted
        ]
        self.text = LineSearch([text for _, text in reading.cleaned])
        self._read: dict[int, KeyLine] = {}

    def value(self, tokens: Iterable[str]) -> float:
        """The summed weight of tokens; the same in whatever order they come."""
        return math.fsum(map(self.index.idf, tokens))

    def naming(self, signature: Signature) -> Why | None:
        """The line with the official name that the signature consists of.

        A number of Dynamo's says enough in any signature; CUDA's names cover whole
        kinds of failure and count where the record gives the bare name.
        """
        if not signature.ids:
            return None
        names = {
            name
            for name in signature.ids
            if signature.kind == "code" or name.startswith("gb:")
        }
        for name in sorted(names):
            line = self.reading.ids.get(name)
            if line:
                own = name not in self.shared
                sure = Confidence.MATCH if own else Confidence.POSSIBLE
                return Why(line, signature.text, sure, 1.0, by_name=own)
        return None

    def having(self, signature: Signature) -> Why | None:
        """The line of a symptom; a match where it names an op of this record alone."""
        own = bool(signature.ids - self.shared)
        sure = Confidence.MATCH if own else Confidence.POSSIBLE
        line = self.reading.facets.get(signature.text)
        return Why(line, signature.text, sure, float(own), own) if line else None

    def holding(self, signature: Signature) -> Why | None:
        """The first line that holds a code word for word.

        Only a code in a line that complains makes a match: what a healthy run
        prints too (a command, a kernel's name) is no more than a hint.
        """
        text = self.weighed[signature].plain
        at = self.complaints.find(text)
        if at is not None:
            number = self.lines[at].number
            return Why(number, signature.text, Confidence.MATCH, 1.0)
        at = self.text.find(text)
        if at is None:
            return None
        number = self.reading.cleaned[at][0]
        return Why(number, signature.text, Confidence.POSSIBLE, 1.0)

    def remarking(self, signature: Signature) -> Why | None:
        """The line that says what a remark says, numbers and a few words aside."""
        weighed = self.weighed[signature]
        whole, rare = weighed.whole, weighed.rare
        at = self.text.find(weighed.plain)
        if at is not None:
            number = self.reading.cleaned[at][0]
            return Why(number, signature.text, Confidence.POSSIBLE, 1.0)
        best = (0.0, 0)
        for at in self.text.find_any(rare[:2], CLOSE_LINES):
            text = self.reading.cleaned[at][1]
            if self.value(word for word in rare if word in text) < HALF * whole:
                continue  # a line that is worth reading closely holds more
            line = self.read(at)
            share = self.share(line, self.value(line.tokens), signature, whole)
            best = max(best, (share, line.number), key=itemgetter(0))
            if line.letters == signature.letters and len(line.letters) >= MIN_SAME:
                # Too little to identify anything, yet all that the record has.
                return Why(line.number, signature.text, Confidence.POSSIBLE, 1.0)
        if best[0] < MATCH or not signature.is_telling:
            return None
        return Why(best[1], signature.text, Confidence.POSSIBLE, min(best[0], 1.0))

    def titled(self, signature: Signature) -> Why | None:
        """The line that is the title of a thread: a hint, as no program prints it."""
        why = self.showing(signature) or self.remarking(signature)
        near = why and why.coverage >= TITLE
        return replace(why, confidence=Confidence.POSSIBLE) if why and near else None

    def read(self, at: int) -> KeyLine:
        """Any line of the log as if it complained."""
        if at not in self._read:
            number, text = self.reading.cleaned[at]
            self._read[at] = key_line(number, "", text)
        return self._read[at]

    def share(
        self, line: KeyLine, worth: float, signature: Signature, whole: float
    ) -> float:
        """The telling share of the signature that the line holds."""
        if contradict(line.ids, signature.ids):
            return 0.0
        if is_word_for_word(line, signature):
            return WORD_FOR_WORD
        if line.quoted:
            return 0.0
        if is_cut_off(line, signature):
            return MATCH
        shared = self.value(line.tokens & signature.tokens)
        extra = min(EXTRA * (worth - shared), MOST_EXTRA * whole)
        return shared / (whole + extra) if shared else 0.0

    def showing(self, signature: Signature) -> Why | None:
        """The line that is nearest to a message signature."""
        whole = self.weighed[signature].whole
        if not self.can_show(signature, whole):
            return None
        share, nearest = 0.0, None
        for at in self.candidates(signature, whole):
            line = self.lines[at]
            share_of_line = self.share(line, self.worth[at], signature, whole)
            if share_of_line > share:
                share, nearest = share_of_line, line
            if share == WORD_FOR_WORD:
                break
        if nearest is None or share < POSSIBLE:
            return None
        if share < MATCH and not signature.is_telling:
            return None
        confidence = self.confidence(nearest, share, signature, whole)
        share = min(share, 1.0)
        return Why(nearest.number, signature.text, confidence, share, last=nearest.last)

    def confidence(
        self, line: KeyLine, share: float, signature: Signature, whole: float
    ) -> Confidence:
        """How sure a line is that holds this share of the signature."""
        if signature.has_many_causes or not signature.is_telling or share < MATCH:
            return Confidence.POSSIBLE
        if share == WORD_FOR_WORD:
            return Confidence.EXACT
        if is_scattered(line.text, signature.text):
            return Confidence.POSSIBLE
        other = self.has_other_words(line, signature, whole)
        return Confidence.POSSIBLE if other else Confidence.MATCH

    def has_other_words(
        self, line: KeyLine, signature: Signature, whole: float
    ) -> bool:
        """The line lacks a word of the signature and has one of its own instead.

        So differ the messages of sister errors: "the return type of" and "the
        argument list of a type annotation".
        """
        missing = self.value(signature.tokens - line.tokens)
        added = self.value(line.tokens - signature.tokens)
        return min(missing, added) > OTHER_WORDS * whole

    def can_show(self, signature: Signature, whole: float) -> bool:
        """False where all lines together hold too little of the signature."""
        if self.value(signature.tokens & self.all_tokens) >= POSSIBLE * whole:
            return True
        letters = signature.letters
        return bool(letters) and (
            letters in self.letters.text or any(map(letters.startswith, self.long))
        )

    def candidates(self, signature: Signature, whole: float) -> list[int]:
        """The lines that can hold enough of the signature, in the log's order.

        A line that misses the tokens worth more than the rest cannot reach POSSIBLE.
        """
        numbers: set[int] = set()
        left = whole
        for token in self.weighed[signature].rare:
            if left < POSSIBLE * whole:
                break
            numbers.update(self.holders.get(token, ()))
            left -= self.index.idf(token)
        # The whole of it, or its beginning, whatever its words are worth.
        begins = signature.letters[:CUT_LETTERS]
        numbers.update(self.letters.find_any([begins], CLOSE_LINES))
        return sorted(numbers)


def is_word_for_word(line: KeyLine, signature: Signature) -> bool:
    """The whole signature stands in the line, apart from what varies."""
    named, given = signature.class_name, line.class_name
    # Who quotes a message leaves its class out.
    if named and not line.quoted and family(named) != family(given):
        return False
    return bool(signature.letters) and signature.letters in line.letters


def is_cut_off(line: KeyLine, signature: Signature) -> bool:
    """The line is the beginning of the signature, as in a test's summary."""
    return (
        len(line.letters) >= max(CUT_LETTERS, len(signature.letters) // 2)
        and (
            not signature.class_name
            or family(line.class_name) == family(signature.class_name)
        )
        and signature.letters.startswith(line.letters)
    )


# --- whether the words of a message stand together in a line, or strewn over it -------
def is_scattered(line: str, signature: str) -> bool:
    """The words that the two share take much more room in the line.

    So does a short message whose every word stands somewhere in a long other one.
    """
    wanted = words(signature)
    return shortest_run(words(line), set(wanted)) > STRETCH * len(wanted) + SLACK


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def shortest_run(line: list[str], wanted: set[str]) -> int:
    """How many words of the line hold all of these that stand in it; 0 for none."""
    shared = wanted.intersection(line)
    held: Counter[str] = Counter()
    shortest = first = 0
    for last, word in enumerate(line):
        if word in shared:
            held[word] += 1
        while shared and len(held) == len(shared):
            length = last - first + 1
            shortest = min(shortest, length) if shortest else length
            held[line[first]] -= 1
            held += Counter()  # what is left at zero goes
            first += 1
    return shortest
