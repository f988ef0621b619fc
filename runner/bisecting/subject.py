"""What is known of a repro on one class of device, as a bisection needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kb.choices import Verdict
from kb.models import Finding, Repro
from kb.versions.order import build_order, release_of
from runner.bisecting import search
from runner.bisecting.search import UNKNOWN
from runner.models import Build


@dataclass
class Subject:
    """`raw`: of each build, the version that torch reports. `known`: what findings say.

    `offered`: releases that could be installed; once one was, `slugs` has its build.
    `asked`: builds whose answer was sought now, with how many trials; 0: in vain.
    `again`: what was known before does not count.
    """

    repro: Repro
    device: str
    raw: dict[str, str]
    known: dict[str, Finding]
    offered: list[str] = field(default_factory=list)
    slugs: dict[str, str] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    again: bool = False

    @property
    def hits(self) -> list[tuple[int, int]]:
        return [(row.hits, row.trials) for row in self.known.values()]

    @property
    def trials(self) -> int:
        return search.trials_of(self.repro.header.get("trials", 1), self.hits)

    def slug(self, name: str) -> str:
        """The build of a release that was installed for this; else the name itself."""
        return self.slugs.get(name, name)

    def candidates(self, runnable: Iterable[str]) -> list[str]:
        """Builds with a result or that can be run, and offered releases that neither
        of those is of; oldest version first.
        """
        here = set(runnable)
        slugs = {slug for slug in self.raw if slug in self.known} | here
        settled = {slug for slug in slugs if slug in here or not self.is_open(slug)}
        releases = {release_of(self.raw[slug]) for slug in settled}
        places = {slug: self.raw[slug] for slug in slugs}
        places |= {name: name for name in self.offered if name not in releases}
        return sorted(places, key=lambda name: build_order(places[name], name))

    def is_open(self, slug: str) -> bool:
        """Whether its result is none, and another run may give one."""
        row = self.known.get(slug)
        return row is None or row.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE)

    def answers(self, builds: Iterable[str], runnable: Iterable[str]) -> dict[str, str]:
        """What need not be asked: settled by results, asked in vain, out of reach."""
        reachable, uncertain = set(runnable), search.is_uncertain(self.hits)
        found = {}
        for name in builds:
            slug = self.slug(name)
            row = self.known.get(slug)
            answer = UNKNOWN
            if row:
                answer = search.answer_of(row.verdict, row.trials, uncertain=uncertain)
            if not self.is_to_ask(slug, answer, row, reachable):
                found[name] = answer
        return found

    def is_to_ask(
        self, slug: str, answer: str, row: Finding | None, reachable: set[str]
    ) -> bool:
        if slug in self.asked:
            # A bug that turned out uncertain since takes more trials than it had.
            enough = answer != UNKNOWN or self.asked[slug] >= self.trials
            return not enough and bool(self.asked[slug]) and slug in reachable
        if slug not in reachable:
            return False
        cannot_apply = row is not None and row.verdict == Verdict.NOT_APPLICABLE
        return self.again or (answer == UNKNOWN and not cannot_apply)


def subject_of(
    repro: Repro,
    device: str,
    *,
    offered: Iterable[str] = (),
    again: bool = False,
) -> Subject:
    """By what findings say now."""
    rows = Finding.objects.fresh().triggers()
    rows = rows.filter(record=repro.record_id, repro=repro.name, device_class=device)
    known = {row.build: row for row in rows}
    raw = dict(Build.objects.values_list("slug", "raw"))
    raw |= {row.build: row.build_raw for row in known.values()}
    return Subject(repro, device, raw, known, list(offered), again=again)
