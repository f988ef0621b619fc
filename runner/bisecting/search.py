"""Between which two builds a verdict turns, asking as few builds as possible. Pure.

A build whose answer is unknown (the repro cannot apply there, or ended without a
verdict) counts neither as good nor as bad: its neighbours are asked in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

GOOD, BAD, UNKNOWN = "good", "bad", "unknown"
# A bug that happens sometimes is absent only after so many trials.
TRIALS_WHERE_UNCERTAIN = 3


@dataclass(frozen=True)
class Turn:
    """The last build that answers as the first one, the first that answers as the last.

    `unknown`: builds between them whose answer is not known. `instead`: the end that
    was named -> the build nearest to it that is as the end was said to be.
    """

    before: str
    after: str
    unknown: list[str] = field(default_factory=list)
    instead: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """How far a search is: what to `ask` next, or the `turn` that it found.

    `used`: the answers it went by, in its order.
    """

    ask: str | None
    turn: Turn | None
    used: list[str]


class Contradicted(Exception):
    """An end answers otherwise than it was said to."""

    def __init__(self, build: str, said: str, answer: str) -> None:
        super().__init__(build, said, answer)
        self.build, self.said, self.answer = build, said, answer


def follow(builds: Sequence[str], first: str, answers: Mapping[str, str]) -> Standing:
    """`builds` from one end to the other; `first` is what the first one is said to be.

    What `answers` hold is free, so they narrow the search before anything is asked.
    Where the answer of an end is unknown, what was said counts; where it is the
    opposite, the nearest build with the right answer stands for it, for one of the two.
    Raises Contradicted.
    """
    last = BAD if first == GOOD else GOOD
    ends = [0, len(builds) - 1]
    instead: dict[str, str] = {}
    used: list[str] = []
    for side, said in ((0, first), (1, last)):
        build = builds[ends[side]]
        if build not in answers:
            return Standing(build, None, used)
        used.append(build)
        if answers[build] in (said, UNKNOWN):
            continue
        inner = [at for at in within(builds, *ends) if answers.get(builds[at]) == said]
        if not inner or instead:
            raise Contradicted(build, said, answers[build])
        ends[side] = inner[0] if side == 0 else inner[-1]
        instead[build] = builds[ends[side]]
        used.append(builds[ends[side]])
    return narrow(builds, first, answers, (ends[0], ends[1]), Trail(used, instead))


@dataclass(frozen=True)
class Trail:
    """What a search went by so far, see `Standing.used` and `Turn.instead`."""

    used: list[str]
    instead: dict[str, str]


def narrow(
    builds: Sequence[str],
    first: str,
    answers: Mapping[str, str],
    ends: tuple[int, int],
    trail: Trail,
) -> Standing:
    """Halve what lies between the ends, by what is known as long as there is any."""
    low, high = ends
    while between := [
        at for at in within(builds, low, high) if answers.get(builds[at]) != UNKNOWN
    ]:
        known = [at for at in between if builds[at] in answers]
        middle = (known or between)[len(known or between) // 2]
        if not known:
            return Standing(builds[middle], None, trail.used)
        trail.used.append(builds[middle])
        if answers[builds[middle]] == first:
            low = middle
        else:
            high = middle
    unknown = [builds[at] for at in within(builds, low, high)]
    turn = Turn(builds[low], builds[high], unknown, trail.instead)
    return Standing(None, turn, trail.used)


def within(builds: Sequence[str], low: int, high: int) -> range:
    return range(low + 1, min(high, len(builds)))


def search(
    builds: Sequence[str],
    first: str,
    ask: Callable[[str], str],
    known: Mapping[str, str] | None = None,
) -> Turn:
    """The same to its end; `ask` answers for one build. Raises Contradicted."""
    answers = dict(known or {})
    while True:
        standing = follow(builds, first, answers)
        if standing.turn:
            return standing.turn
        assert standing.ask is not None  # noqa: S101  # one of the two is there
        answers[standing.ask] = ask(standing.ask)


def most_questions(builds: int) -> int:
    """How many builds between the two ends are asked at most, where all answer."""
    return max(builds - 2, 0).bit_length()


def trials_of(declared: int, hits: Sequence[tuple[int, int]]) -> int:
    """How often to run the trigger, given (hits, trials) of what is known."""
    return max(declared, TRIALS_WHERE_UNCERTAIN) if is_uncertain(hits) else declared


def is_uncertain(hits: Sequence[tuple[int, int]]) -> bool:
    """Whether the bug was seen in some trials of a build and not in others."""
    return any(0 < seen < trials for seen, trials in hits)


def answer_of(verdict: str, trials: int, *, uncertain: bool) -> str:
    """What one verdict says; of an uncertain bug a few clean trials say nothing."""
    if verdict == "bug_present":
        return BAD
    if verdict != "bug_absent":
        return UNKNOWN
    return UNKNOWN if uncertain and trials < TRIALS_WHERE_UNCERTAIN else GOOD
