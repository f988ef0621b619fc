"""How near each record is to the words of a paste: they order, and decide nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb.lookup import reasons
from kb.lookup.candidate import Candidate
from kb.lookup.facts import COMMON, Facts
from kb.lookup.known import Known
from kb.lookup.needs import flags_of, is_possible_here
from kb.lookup.symptoms import Shown
from kb.search.ranking.nearness import Text
from kb.search.reading.names import PREFIX

# What nearness (0 to 1) is worth, and at most where no operator is named.
NEAR, MOST_BY_WORDS = 7.0, 1.0
# At most beside causes of a symptom that is shown: less than a fact is worth.
BESIDE_CAUSES = 2.0
# The share of it where a symptom is shown and nothing else speaks for the record.
UNTOLD = 0.15
# Of an argument that the bug takes, and that the code gives by name.
PASSED = 0.6
# Where a card, a package or a mode that it takes is not said, or it makes no NaN.
UNLIKE = 0.7
MOST_NEAR, MOST_NAMES = 20, 3
# A name that more records have tells none, unless the code calls it.
MANY, MOST_SHARE = 10, 0.27


class Near:
    """How near each record is to what the paste speaks of; words order, no more."""

    def __init__(self, text: Text, shown: Sequence[Shown]) -> None:
        """`shown`: symptoms of the paste, of which causes are listed."""
        self.text, self.others = text, bool(shown)
        self.printed = any(row.lines for row in shown)
        self.documents = {document.record: document for document in text.nearest()}
        self.nearness = {
            pk: text.nearness(document) for pk, document in self.documents.items()
        }
        order = sorted(self.nearness, key=lambda pk: -self.nearness[pk])
        self.first = order[:MOST_NEAR]

    def add_to(self, pk: str, candidate: Candidate, facts: Facts) -> None:
        worth = NEAR * self.nearness.get(pk, 0.0)
        if not is_possible_here(candidate.row, facts) or candidate.is_other_symptom(
            facts
        ):
            worth *= UNLIKE
        named = self.named(pk, candidate, facts)
        # A short sentence is near to whatever shares its few words.
        calls = facts.values["call"] or facts.names_operators
        worth = worth if calls and named else min(worth, MOST_BY_WORDS)
        told = candidate.is_told or not self.others
        if candidate.cause is None or not self.printed:
            told = told or bool(named and facts.is_written)
        # Not what the message is about, whose causes are known.
        if candidate.cause is None and self.others:
            worth = min(worth, MOST_BY_WORDS / 2 if self.printed else BESIDE_CAUSES)
        candidate.score += worth if told else UNTOLD * worth
        if candidate.known and facts.has("passed", *flags_of(candidate.known.row)):
            candidate.score += PASSED
        # Words order; only named things that both have are a reason to list a record.
        if named and not candidate.because and facts.is_written:
            candidate.because.append(reasons.of_names(named, facts))

    def named(self, pk: str, candidate: Candidate, facts: Facts) -> list[str]:
        if candidate.known is None or pk not in self.documents:
            return []
        shares = self.text.shares(self.documents[pk])
        names = named_things(shares, candidate.known, facts)
        return [name for name in names if self.tells(name, facts)]

    def tells(self, name: str, facts: Facts) -> bool:
        index = self.text.index
        most = max(index.frequency(name), index.frequency(PREFIX + name))
        return facts.has("call", name) or most <= max(MANY, MOST_SHARE * index.count)


def named_things(shares: Mapping[str, float], record: Known, facts: Facts) -> list[str]:
    """Operators, packages and topics of the record that the paste names, rare first."""
    own = {*record.row.components, *(e["package"] for e in record.row.affected)}
    own.discard("torch")
    order = sorted(shares, key=lambda token: -shares[token])
    calls = {*facts.values.get("call", {}), *facts.values.get("named", {})} - COMMON
    found = [
        token.removeprefix(PREFIX)
        for token in order
        if (token.startswith(PREFIX) and token.removeprefix(PREFIX) in calls)
        or token in own - COMMON
    ]
    return list(dict.fromkeys(found))[:MOST_NAMES]
