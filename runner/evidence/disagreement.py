"""Disagreements: origins with different verdicts on the same repro and build.

Either the bug is intermittent or a machine misreports itself. Evidence cannot tell
which, so pages show both sides and advise to suspect the node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, Window
from django.db.models.functions import RowNumber

from kb import badges
from kb.badges import Badge
from kb.choices import JUDGED, OUR_ORIGINS, Fidelity
from kb.languages import current_lang
from kb.models import Record
from portable import harness
from runner.builds import proof
from runner.evidence import executed
from runner.models import Build, Evidence

FIELDS = (
    *("digest", "record", "build_slug", "repro_name", "repro_digest", "device_class"),
    *("verdict", "origin", "started_at"),
)
CASE = ("repro_name", "build_slug", "device_class")


@dataclass(frozen=True)
class Side:
    """The newest verdict of one origin."""

    evidence: Evidence
    hits: int
    trials: int

    @property
    def badge(self) -> Badge:
        verdict, lang = self.evidence.verdict, current_lang()
        upstream = Fidelity.UPSTREAM_BUG
        return badges.badge(verdict, self.hits, self.trials, upstream, lang)


@dataclass(frozen=True)
class Disagreement:
    """One repro, build and device class; `sides`: one for each origin."""

    repro: str
    build: str
    device_class: str
    sides: list[Side]


def disagreements(
    record: Record, evidence: Evidence | None = None
) -> list[Disagreement]:
    """Of a record, or only about the case of this evidence, from what is current.

    What was sent disagrees on its own page only. Reads parts of the bodies.
    """
    models = {repro.name for repro in record.repros.all() if repro.is_model}
    holding = executed.holding(record)
    digests = [digest for name, digest in holding if name not in models]
    rows = record.evidence.filter(
        Q(origin__in=OUR_ORIGINS) | Q(pk=evidence and evidence.pk),
        repro_digest__in=digests,
        verdict__in=JUDGED,
        parameters="",
    )
    if evidence and is_of_another_torch(evidence):
        return []
    if evidence:
        rows = rows.filter(**{name: getattr(evidence, name) for name in CASE})
    fields = (*FIELDS, "body__hits", "body__trials")
    newest = Window(RowNumber(), [*CASE, "origin"], ["-started_at", "-digest"])
    current = rows.filter(body__harness=harness.PROTOCOL).annotate(nth=newest)
    return among(map(side_of, current.filter(nth=1).order_by().values(*fields)))


def is_of_another_torch(evidence: Evidence) -> bool:
    """Whether what was sent calls another torch by the name of a build here."""
    build = Build.objects.filter(slug=evidence.build_slug).first()
    return bool(build and proof.differs(build, evidence.body["build"]))


def side_of(row: dict[str, Any]) -> Side:
    hits, trials = row.pop("body__hits"), row.pop("body__trials")
    record = row.pop("record")
    evidence = Evidence(**row, record_id=record)
    return Side(evidence, hits or 0, trials or 0)


def among(sides: Iterable[Side]) -> list[Disagreement]:
    """Disagreements among sides, one for each case and origin."""
    by_case: dict[tuple[str, str, str], list[Side]] = defaultdict(list)
    for side in sides:
        row = side.evidence
        by_case[row.repro_name, row.build_slug, row.device_class].append(side)
    return [
        Disagreement(*case, sorted(sides, key=lambda side: side.evidence.origin))
        for case, sides in sorted(by_case.items())
        if len({side.evidence.verdict for side in sides}) > 1
    ]
