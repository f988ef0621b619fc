"""What runs show on a build or a release, as sets of keys.

The database joins the keys of one answer into one text: ten thousand rows read one by
one take several times as long, and what two sides show are then operations on sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Aggregate, F, Func, Q, TextField

from kb.choices import Outcome, Verdict
from kb.environments.environment import Environment
from kb.models import Finding
from kb.models.finding import FindingQuerySet
from kb.search.index.generation import Generation
from kb.versions import runs

BAD, GOOD, DIFFERS = "bad", "good", "differs"
# Some 2 MB each with 10,000 records.
KEPT_BUILDS = 32
# "NAN-0001 repro cpu", of a workaround "NAN-0001 repro cpu workaround_off". No part has
# a blank, and these sort as their parts do.
Key = str
Keys = frozenset[Key]


class Joined(Aggregate):
    """The values of a group, a line each. Null where there are none."""

    name = "Joined"
    function = "STRING_AGG"
    template = "%(function)s(%(expressions)s, '\n')"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return self.as_sql(compiler, connection, function="GROUP_CONCAT", **options)


def joined_key(*columns: str) -> Func:
    return Func(
        *map(F, columns),
        template="(%(expressions)s)",
        arg_joiner=" || ' ' || ",
        output_field=TextField(),
    )


TRIGGER_KEY = joined_key("record_id", "repro", "device_class")
CHECK_KEY = joined_key("record_id", "repro", "device_class", "check_name")


def keys_of(text: str | None) -> Keys:
    return frozenset(text.split("\n") if text else ())


def record_of(key: Key) -> str:
    return key.partition(" ")[0]


def trigger_of(key: Key) -> Key:
    """Of a workaround or a trigger."""
    return " ".join(key.split(" ", 3)[:3])


def records_of(keys: Iterable[Key]) -> list[str]:
    """With repetitions."""
    return [key.partition(" ")[0] for key in keys]


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
    bad, good = Q(verdict=Verdict.BUG_PRESENT), Q(verdict=Verdict.BUG_ABSENT)
    return Answers(*joined(rows, TRIGGER_KEY, bad, good))


def with_packages(build: str, env: Environment) -> Answers:
    """What runs on this build show that had packages which are installed just so."""
    rows = of_the_bug([build]).triggers().exclude(made_with__packages__isnull=True)
    same = [row.pk for row in rows if runs.has_packages(row, env)]
    return answers_by(rows.filter(pk__in=same))


@lru_cache(maxsize=KEPT_BUILDS)
def workarounds_on(generation: Generation, build: str) -> tuple[Keys, Keys]:
    """Those that were clean against the bug, and those that were not."""
    rows = of_the_bug([build]).filter(
        # For the index, which SQLite does not use for a prefix; "w" is the last letter
        # that a check begins with, in any order of letters, and no other has it.
        check_name__gte="workaround",
        check_name__lt="x",
        verdict=Verdict.BUG_PRESENT,
    )
    helped, failed = joined(
        rows, CHECK_KEY, Q(outcome=Outcome.CLEAN), Q(outcome=Outcome.BUG)
    )
    return helped, failed


def joined(rows: FindingQuerySet, key: Func, *conditions: Q) -> list[Keys]:
    """The keys of the rows that meet each condition."""
    texts: Mapping[str, str | None] = rows.aggregate(
        **{f"k{at}": Joined(key, filter=met) for at, met in enumerate(conditions)}
    )
    return [keys_of(texts[f"k{at}"]) for at in range(len(conditions))]


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
    return frozenset(key for key in keys if key.endswith(f" {device}"))


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
