"""The front page: what was judged last, and where a verdict flips between builds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from django.db.models import Count

from kb.choices import Verdict
from kb.models import Finding, Flip, Standing, TestedBuild
from kb.versions import order

SHOWN = 6
AXIS = 15
# Runs come in bursts of one record: so many verdicts are looked at, to show SHOWN.
LOOKED_AT = 400
# Stands in the empty box; as printed, so in no language of the site.
EXAMPLE = """\
UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides(), \
attempting to materialize a grad_output with matching strides...
{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.995131923687488e-05, 'epoch': 0.36}\
"""


@dataclass(frozen=True)
class Tick:
    """One tested build on the ruler, with how many records flip there."""

    build: str
    label: str
    first_good: int
    first_bad: int


@dataclass(frozen=True)
class FrontPage:
    records: int
    builds: int
    verdicts: list[Finding]
    flips: list[Flip]
    axis: list[Tick]
    example: str = EXAMPLE


def build() -> FrontPage:
    tested = judged_builds()
    rows = Flip.objects.order_by().values_list("build", "kind")
    counts = {
        (slug, kind): count for slug, kind, count in rows.annotate(count=Count("pk"))
    }
    flips = newest_flips(tested, {slug for slug, _kind in counts})
    return FrontPage(
        records=Standing.objects.count(),
        builds=len(tested),
        verdicts=latest_verdicts(),
        flips=list(islice(flips, SHOWN)),
        axis=ruler(tested, counts),
    )


def judged_builds() -> dict[str, str]:
    """Slug -> raw version of every build with a judged verdict, oldest first."""
    rows = TestedBuild.objects.filter(judged=True)
    ordered = sorted(rows, key=lambda row: order.build_order(row.raw, row.slug))
    return {row.slug: row.raw for row in ordered}


def newest_flips(tested: Iterable[str], flipping: set[str]) -> Iterable[Flip]:
    """Flips in the newest builds first; of one build by record, the newest first."""
    flips = Flip.objects.select_related("record").defer("record__html")
    for slug in reversed(list(tested)):
        if slug in flipping:
            yield from flips.filter(build=slug).order_by("-record")[:SHOWN]


def latest_verdicts() -> list[Finding]:
    """The newest judged trigger of each listed record, newest first."""
    rows = Finding.objects.triggers().fresh().exclude(verdict=Verdict.ERROR)
    listed = rows.filter(record__standing__isnull=False)
    recent = listed.order_by("-observed_at", "build").values_list("pk", "record_id")
    newest: dict[str, int] = {}
    for pk, record in recent[:LOOKED_AT]:
        newest.setdefault(record, pk)
        if len(newest) == SHOWN:
            break
    shown = Finding.objects.select_related("record").defer("record__html")
    by_pk = shown.in_bulk(newest.values())
    return [by_pk[pk] for pk in newest.values() if pk in by_pk]


def ruler(tested: dict[str, str], counts: dict[tuple[str, str], int]) -> list[Tick]:
    """The newest builds, with how many records turn good or bad at each."""
    labels = order.column_labels(tested)
    return [
        Tick(
            slug,
            labels[slug],
            counts.get((slug, "first_good"), 0),
            counts.get((slug, "first_bad"), 0),
        )
        for slug in list(tested)[-AXIS:]
    ]
