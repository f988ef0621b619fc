"""What runs show on a build or a release, as sets of keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from kb.choices import Outcome, Verdict
from kb.environments.environment import Environment
from kb.models import Finding
from kb.models.finding import FindingQuerySet
from kb.search.index.generation import Generation
from kb.versions import runs

BAD, GOOD, DIFFERS = "bad", "good", "differs"
KEPT_BUILDS = 32
# Record, repro and class of device; of a workaround its check, too. What only documents
# say has the record alone.
Key = tuple[str, ...]
Keys = frozenset[Key]
TRIGGER_KEY = ("record_id", "repro", "device_class")
CHECK_KEY = (*TRIGGER_KEY, "check_name")


def record_of(key: Key) -> str:
    return key[0]


def trigger_of(key: Key) -> Key:
    """Of a workaround or a trigger."""
    return key[:3]


def records_of(keys: Iterable[Key]) -> list[str]:
    """With repetitions."""
    return [record_of(key) for key in keys]


class Answers(NamedTuple):
    """Of one side: repros that are bad, good, or differ between its builds."""

    bad: Keys
    good: Keys
    differs: Keys = frozenset()

    @property
    def judged(self) -> Keys:
        return self.bad | self.good | self.differs

    def without(self, other: Answers) -> Answers:
        return Answers(*(keys - other.judged for keys in self))


class Remedies(NamedTuple):
    """Of one side: workarounds that helped against the bug on every build, and others.

    The two have none in common.
    """

    helped: Keys
    failed: Keys


@lru_cache(maxsize=KEPT_BUILDS)
def on_build(generation: Generation, build: str) -> Answers:
    """What runs of torch alone show on this build. Cached: one serves several pairs."""
    return answers_by(of_the_bug([build]).triggers().of_torch_alone())


def answers_by(rows: FindingQuerySet) -> Answers:
    shown = rows.values_list("verdict", *TRIGGER_KEY)
    return Answers(*keys_by(shown, Verdict.BUG_PRESENT, Verdict.BUG_ABSENT))


def with_packages(build: str, env: Environment) -> Answers:
    """What runs on this build show that had packages which are installed just so."""
    rows = of_the_bug([build]).triggers().exclude(made_with__packages__isnull=True)
    same = [row.pk for row in rows if runs.has_packages(row, env)]
    return answers_by(rows.filter(pk__in=same))


@lru_cache(maxsize=KEPT_BUILDS)
def workarounds_on(generation: Generation, build: str) -> tuple[Keys, Keys]:
    """Those that were clean against the bug, and those that were not."""
    rows = of_the_bug([build]).filter(
        check_name__startswith="workaround", verdict=Verdict.BUG_PRESENT
    )
    shown = rows.values_list("outcome", *CHECK_KEY)
    helped, failed = keys_by(shown, Outcome.CLEAN, Outcome.BUG)
    return helped, failed


def keys_by(rows: Iterable[tuple[str, ...]], *first: str) -> list[Keys]:
    """The keys of the rows that begin with each of these."""
    found: dict[str, set[Key]] = {one: set() for one in first}
    for one, *key in rows:
        if one in found:
            found[one].add(tuple(key))
    return [frozenset(found[one]) for one in first]


def runs_on(
    sides: list[tuple[str, ...]], records: Collection[str]
) -> dict[str, list[list[Finding]]]:
    """By record the verdicts on each side, whatever packages they had."""
    found: dict[str, list[list[Finding]]] = {}
    if not records:
        return found
    builds = {build for side in sides for build in side}
    for row in of_the_bug(builds).triggers().filter(record__in=list(records)):
        several = found.setdefault(row.record_id, [[] for _side in sides])
        for at, side in enumerate(sides):
            if row.build in side:
                several[at].append(row)
    return found


def of_the_bug(builds: Iterable[str]) -> FindingQuerySet:
    rows = Finding.objects.fresh().of_the_bug()
    return rows.filter(build__in=set(builds)).order_by()


def on_device(keys: Keys, device: str) -> Keys:
    """Of triggers."""
    return frozenset(key for key in keys if key[2] == device)


def answers_of(
    generation: Generation,
    builds: tuple[str, ...],
    device: str = "",
    env: Environment | None = None,
) -> Answers:
    """Where builds of the side do not agree, they differ. `env`: what is installed."""
    several = [on_build(generation, build) for build in builds]
    several += [with_packages(build, env) for build in builds if env]
    found = several[0] if len(several) == 1 else together(several)
    return Answers(*(on_device(keys, device) for keys in found)) if device else found


def together(several: list[Answers]) -> Answers:
    bad: Keys = frozenset().union(*(one.bad for one in several))
    good: Keys = frozenset().union(*(one.good for one in several))
    both = bad & good
    return Answers(bad - both, good - both, both)


def remedies_of(generation: Generation, builds: tuple[str, ...]) -> Remedies:
    """On every device. Where builds of the side differ, a workaround does not help."""
    several = [workarounds_on(generation, build) for build in builds]
    helped: Keys = frozenset().union(*(one[0] for one in several))
    failed: Keys = frozenset().union(*(one[1] for one in several))
    return Remedies(helped - failed, failed)
