"""What two sides show of every record: fixed, new, the same, not tested on both.

By fresh verdicts of the bug itself, where one repro was judged on one class of device
on both sides. Where none was, documents speak: with a run on the later side that agrees
a bug is new or fixed, without one it is likely so. A run with packages of its own
counts where a reader has the same ones: it says nothing of torch alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Q

from kb.choices import JUDGED, Outcome, Verdict
from kb.environments.environment import Environment
from kb.environments.package_lines import canonical
from kb.models import Finding, Record
from kb.releases.documented import facts_of_all
from kb.releases.sides import Side
from kb.search.index.generation import Generation, current_generation
from kb.versions.affected import answer_for
from kb.versions.devices import device_of
from kb.versions.ranges import AFFECTED, NOT_AFFECTED, UNKNOWN
from kb.versions.runs import has_packages

BAD, GOOD, DIFFERS = "bad", "good", "differs"
NEW, FIXED = "new", "fixed"
BAD_ON_BOTH, GOOD_ON_BOTH, NOT_TESTED = "bad_on_both", "good_on_both", "not_tested"
CEASES, BEGINS = "workaround_ceases", "workaround_begins"
BEHAVIOUR = "behaviour"
LIKELY_NEW, LIKELY_FIXED = "likely_new", "likely_fixed"
# In the order in which they are told.
CHANGES = (
    *(NEW, LIKELY_NEW, FIXED, LIKELY_FIXED),
    *(CEASES, BEGINS, BEHAVIOUR, DIFFERS),
)
# Of a record with several repros or devices the first that is true of one of them.
STANDING_OF_A_RECORD = (NEW, FIXED, DIFFERS, BAD_ON_BOTH, GOOD_ON_BOTH)
TURNS = {
    (BAD, GOOD): FIXED,
    (GOOD, BAD): NEW,
    (BAD, BAD): BAD_ON_BOTH,
    (GOOD, GOOD): GOOD_ON_BOTH,
}
# By documents: the kind where the later side was run, and where it was not.
TURNED: dict[tuple[str, ...], tuple[str, str]] = {
    (AFFECTED, NOT_AFFECTED): (FIXED, LIKELY_FIXED),
    (NOT_AFFECTED, AFFECTED): (NEW, LIKELY_NEW),
}
KEPT = 16


class Item(NamedTuple):
    """One change: of a repro on a class of device, `check` where it is a workaround's.

    What only documents say is of no repro.
    """

    kind: str
    record: str
    repro: str = ""
    device: str = ""
    check: str = ""


# Of an item the findings on each side, oldest build first.
Runs = tuple[list[Finding], list[Finding]]


@dataclass(frozen=True)
class Comparison:
    """`kinds`: each record that counts -> how it stands, NOT_TESTED included.

    `changed`: what is told, by kind in their order; `runs`: what each rests on.
    `left_out`: records about packages that are not installed -> these packages.
    `devices`: those on which anything was judged on both. `envs`: what documents are
    asked about.
    """

    before: Side
    after: Side
    device: str
    envs: tuple[Environment, Environment]
    kinds: Mapping[str, str]
    changed: Mapping[str, list[Item]]
    runs: Mapping[Item, Runs]
    devices: frozenset[str]
    # Of those not tested on both: judged on the one, on the other.
    only_before: int
    only_after: int
    left_out: Mapping[str, list[str]]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Records by how they stand; and of the other changes, how many there are."""
        records = Counter(self.kinds.values())
        same = records[BAD_ON_BOTH] + records[GOOD_ON_BOTH]
        return {
            **{kind: records[kind] for kind in (*STANDING_OF_A_RECORD, NOT_TESTED)},
            "same": same,
            **{
                kind: len(self.changed.get(kind, ()))
                for kind in CHANGES
                if kind not in STANDING_OF_A_RECORD
            },
        }

    @property
    def is_tested(self) -> bool:
        """Whether any record was judged on both sides."""
        return bool(self.devices)

    @property
    def total(self) -> int:
        return sum(map(len, self.changed.values()))

    def items(self, start: int = 0, end: int | None = None) -> list[Item]:
        """What is told, or a part of it."""
        return list(chain.from_iterable(self.changed.values()))[start:end]

    @property
    def untested_sides(self) -> list[Side]:
        return [side for side in (self.before, self.after) if not side.builds]

    @property
    def query(self) -> str:
        names = {"from": self.before.name, "to": self.after.name}
        device = {"device": self.device} if self.device else {}
        return f"/api/v1/compare?{urlencode(names | device)}"

    def standing(self, kind: str) -> list[str]:
        return [record for record, found in self.kinds.items() if found == kind]


def compare(
    before: Side, after: Side, device: str = "", installed: Environment | None = None
) -> Comparison:
    """`installed`: what a reader has; packages that are not there bring no record."""
    generation = current_generation()
    if installed is None:
        return whole(generation, before, after, device)
    facts = facts_of_all(generation[0])
    left_out = missing_packages(facts, installed)
    device = device or device_of(installed)
    return compared(facts, before, after, device, installed, left_out)


@lru_cache(maxsize=KEPT)
def whole(generation: Generation, before: Side, after: Side, device: str) -> Comparison:
    """Kept, as the front page compares the newest two. Not to be modified."""
    facts = facts_of_all(generation[0])
    return compared(facts, before, after, device, Environment(), {})


def compared(
    every: Mapping[str, Record],
    before: Side,
    after: Side,
    device: str,
    installed: Environment,
    left_out: Mapping[str, list[str]],
) -> Comparison:
    facts = {pk: row for pk, row in every.items() if pk not in left_out}
    envs = before.env_of(device, installed), after.env_of(device, installed)
    rows = [row for row in rows_on(before, after) if row.record_id in facts]
    here = [row for row in rows if not device or row.device_class == device]
    verdicts = [row for row in here if row.is_fresh_verdict]
    comparable = [row for row in verdicts if has_packages(row, installed)]
    cells = by_sides(comparable, before, after, key_of)
    turns = {key: turn_of(runs) for key, runs in cells.items()}
    kinds = dict.fromkeys(facts, NOT_TESTED) | standings(turns)
    checks = by_sides(here, before, after, key_of_check)
    found = dict([*judged_items(cells, turns), *workaround_items(checks, turns)])
    untested = {pk: facts[pk] for pk, kind in kinds.items() if kind == NOT_TESTED}
    triggers = [row for row in rows if row.is_fresh_verdict]
    ran = by_sides(triggers, before, after, lambda row: row.record_id)
    only = {key: runs for key, runs in cells.items() if not turns[key]}
    documented = dict(by_documents(untested, only, envs, ran))
    kinds |= {row.record: row.kind for row in documented if row.kind in (NEW, FIXED)}
    found |= documented
    return Comparison(
        before=before,
        after=after,
        device=device,
        envs=envs,
        kinds=kinds,
        changed=in_order(found),
        runs=found,
        devices=frozenset(key.device for key, turn in turns.items() if turn),
        only_before=untested_on(0, only, kinds),
        only_after=untested_on(1, only, kinds),
        left_out=left_out,
    )


def rows_on(before: Side, after: Side) -> list[Finding]:
    """Verdicts and workarounds on the builds of both, oldest build first."""
    builds = [*before.builds, *after.builds]
    rows = Finding.objects.fresh().of_the_bug().order_by()
    rows = rows.filter(build__in=builds, verdict__in=JUDGED).filter(
        Q(check_name="trigger") | Q(check_name__startswith="workaround")
    )
    return sorted(rows, key=lambda row: builds.index(row.build))


def missing_packages(
    facts: Mapping[str, Record], installed: Environment
) -> dict[str, list[str]]:
    """Of each record about other packages than those installed, which these are."""
    here = {"torch", *map(canonical, installed.packages)}
    named = {
        pk: sorted({canonical(entry["package"]) for entry in row.affected})
        for pk, row in facts.items()
    }
    return {pk: found for pk, found in named.items() if found and not here & {*found}}


def key_of(row: Finding) -> Item:
    return Item("", row.record_id, row.repro, row.device_class)


def key_of_check(row: Finding) -> Item:
    return key_of(row)._replace(check=row.check_name)


def by_sides(
    rows: Iterable[Finding],
    before: Side,
    after: Side,
    key: Callable[[Finding], Any],
) -> dict[Any, Runs]:
    """The rows of each key on either side; a build may be of both."""
    found: defaultdict[Any, Runs] = defaultdict(lambda: ([], []))
    for row in rows:
        for runs, side in zip(found[key(row)], (before, after), strict=True):
            if row.build in side.builds:
                runs.append(row)
    return dict(found)


def in_order(found: Iterable[Item]) -> dict[str, list[Item]]:
    by_kind: dict[str, list[Item]] = {kind: [] for kind in CHANGES}
    for item in sorted(found):
        by_kind[item.kind].append(item)
    return {kind: items for kind, items in by_kind.items() if items}


def untested_on(at: int, only: Mapping[Item, Runs], kinds: Mapping[str, str]) -> int:
    """Records that were judged on this side, and on the other not."""
    judged = {key.record for key, runs in only.items() if runs[at]}
    return sum(kinds[record] == NOT_TESTED for record in judged)


# --- what runs show ------------------------------------------------------------------
def shown_by(rows: Iterable[Finding]) -> str:
    """Bad or good; that builds of the side do not agree; "" where none was judged."""
    words = {BAD if row.verdict == Verdict.BUG_PRESENT else GOOD for row in rows}
    return DIFFERS if len(words) > 1 else next(iter(words), "")


def turn_of(runs: Runs) -> str:
    """How it turned; "" where one side was not judged."""
    first, last = map(shown_by, runs)
    return TURNS.get((first, last), DIFFERS) if first and last else ""


def standings(turns: Mapping[Item, str]) -> dict[str, str]:
    """How each record stands that was judged on both sides."""
    found: dict[str, str] = {}
    for key, turn in turns.items():
        if turn:
            several = turn, found.get(key.record, turn)
            found[key.record] = min(several, key=STANDING_OF_A_RECORD.index)
    return found


def judged_items(
    cells: Mapping[Item, Runs], turns: Mapping[Item, str]
) -> Iterator[tuple[Item, Runs]]:
    """Verdicts that turn; of those that stay, what else was observed otherwise."""
    for key, runs in cells.items():
        if turns[key] in (NEW, FIXED, DIFFERS):
            yield key._replace(kind=turns[key]), runs
        elif turns[key]:
            said = [{row.said for row in side} for side in runs]
            settled = all(len(one) == 1 and None not in one for one in said)
            if settled and said[0] != said[1]:
                yield key._replace(kind=BEHAVIOUR), runs


def workaround_items(
    checks: Mapping[Item, Runs], turns: Mapping[Item, str]
) -> Iterator[tuple[Item, Runs]]:
    """Those that cease or begin to help, where the verdict itself stays."""
    for key, runs in checks.items():
        turn = turns.get(key._replace(check=""))
        if turn not in (BAD_ON_BOTH, GOOD_ON_BOTH) or key.check == "trigger":
            continue
        conclusive = tuple(
            [row for row in side if row.outcome in (Outcome.BUG, Outcome.CLEAN)]
            for side in runs
        )
        helped = [helps(side) for side in conclusive]
        if helped in ([True, False], [False, True]):
            kind = CEASES if helped[0] else BEGINS
            yield key._replace(kind=kind), (conclusive[0], conclusive[1])


def helps(rows: Iterable[Finding]) -> bool | None:
    """Against the bug on every build of a side; None where it did not run so."""
    outcomes = {r.outcome for r in rows if r.verdict == Verdict.BUG_PRESENT}
    return Outcome.BUG not in outcomes if outcomes else None


# --- what documents say --------------------------------------------------------------
def by_documents(
    untested: Mapping[str, Record],
    only: Mapping[Item, Runs],
    envs: tuple[Environment, Environment],
    ran: Mapping[str, Runs],
) -> Iterator[tuple[Item, Runs]]:
    """Of records that were not run on both, unless a run says that documents err.

    `only`: what was judged on one side; what agrees on the later one is told of.
    `ran`: every verdict of a record.
    """
    for record, known in untested.items():
        answers = tuple(answer_for(known, env).answer for env in envs)
        several = zip(envs, answers, ran.get(record, ([], [])), strict=True)
        if answers not in TURNED or any(is_contradicted(known, *on) for on in several):
            continue
        by_run, likely = TURNED[answers]
        wanted = BAD if answers[1] == AFFECTED else GOOD
        agree = {
            key._replace(kind=by_run): runs
            for key, runs in only.items()
            if key.record == record and shown_by(runs[1]) == wanted
        }
        yield from (agree or {Item(likely, record): ([], [])}).items()


def is_contradicted(
    known: Record, env: Environment, documented: str, rows: Iterable[Finding]
) -> bool:
    """By a run of this side, as the rule takes it."""
    several = list(rows)
    return any(
        answer_for(known, replace(env, torch_raw=row.build_raw), several).answer
        not in (documented, UNKNOWN)
        for row in several
    )
