"""Between which two builds a verdict turns, asking as few builds as possible. Pure.

A build whose answer is unknown (the repro cannot apply there, or ended without a
verdict) counts neither as good nor as bad: its neighbours are asked in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

GOOD, BAD, UNKNOWN = "good", "bad", "unknown"
# A bug that happens sometimes is absent only after so many trials.
TRIALS_WHERE_UNCERTAIN = 3


@dataclass(frozen=True)
class Turn:
    """The last build that answers as the first one, the first that answers as the last.

    `unknown`: builds between them whose answer is not known.
    """

    before: str
    after: str
    unknown: list[str] = field(default_factory=list)


class Contradicted(Exception):
    """An end answers otherwise than it was said to."""

    def __init__(self, build: str, said: str, answer: str) -> None:
        super().__init__(build, said, answer)
        self.build, self.said, self.answer = build, said, answer


def search(builds: Sequence[str], first: str, ask: Callable[[str], str]) -> Turn:
    """`builds` from one end to the other; `first` is what the first one is said to be.

    The ends are asked as well; where their answer is unknown, what was said counts.
    Raises Contradicted.
    """
    last = BAD if first == GOOD else GOOD
    for build, said in ((builds[0], first), (builds[-1], last)):
        answer = ask(build)
        if answer not in (said, UNKNOWN):
            raise Contradicted(build, said, answer)
    low, high = 0, len(builds) - 1
    unknown: set[int] = set()
    while between := [at for at in range(low + 1, high) if at not in unknown]:
        middle = between[len(between) // 2]
        answer = ask(builds[middle])
        if answer == UNKNOWN:
            unknown.add(middle)
        elif answer == first:
            low = middle
        else:
            high = middle
    left = [builds[at] for at in sorted(unknown) if low < at < high]
    return Turn(builds[low], builds[high], left)


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
