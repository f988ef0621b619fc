"""The front page: what was judged last, and where a verdict flips between builds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from urllib.parse import urlencode

from django.db.models import Count
from django.urls import reverse

from kb.choices import Verdict
from kb.languages import current_lang
from kb.models import Finding, Flip, Standing, TestedBuild
from kb.search.index.generation import Generation, current_generation
from kb.versions import order

SHOWN = 6
GOOD, BAD = "first_good", "first_bad"
AXIS = 15
# Runs come in bursts of one record: so many verdicts are looked at, to show SHOWN.
LOOKED_AT = 400
# Stands in the empty box; as printed, so in no language of the site.
EXAMPLE = """\
UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides(), \
attempting to materialize a grad_output with matching strides...
{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.995131923687488e-05, 'epoch': 0.36}\
"""

# (build, kind of flip, the build before) -> how many records.
Flips = Mapping[tuple[str, str, str], int]
# To be clicked: what people paste, each about another record.
EXAMPLES = (
    "UserWarning: None of the inputs have requires_grad=True. Gradients will be None",
    EXAMPLE,
    "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
)


@dataclass(frozen=True)
class Tick:
    """One tested build on the ruler, with how many records flip there.

    `address` is the matrix of just these flips.
    """

    label: str
    first_good: int
    first_bad: int
    address: str


@dataclass(frozen=True)
class NamedFlip:
    """A flip with its builds by release, where that names them."""

    flip: Flip
    before: str
    build: str


@dataclass(frozen=True)
class FrontPage:
    records: int
    builds: int
    verdicts: list[Finding]
    flips: list[NamedFlip]
    axis: list[Tick]
    example: str = EXAMPLE
    examples: tuple[str, ...] = EXAMPLES


def build() -> FrontPage:
    return built(current_generation(), current_lang())


@lru_cache(maxsize=4)
def built(_generation: Generation, _lang: str) -> FrontPage:
    tested = judged_builds()
    labels = order.column_labels(tested)
    rows = Flip.objects.order_by().values_list("build", "kind", "before")
    counts = {
        (slug, kind, before): count
        for slug, kind, before, count in rows.annotate(count=Count("pk"))
    }
    flips = newest_flips(tested, {slug for slug, _kind, _before in counts})
    return FrontPage(
        records=Standing.objects.count(),
        builds=len(tested),
        verdicts=latest_verdicts(),
        flips=[
            NamedFlip(
                flip,
                labels.get(flip.before, flip.before),
                labels.get(flip.build, flip.build),
            )
            for flip in islice(flips, SHOWN)
        ],
        axis=[tick(slug, labels[slug], counts) for slug in list(tested)[-AXIS:]],
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
    rows = Finding.objects.fresh().triggers().exclude(verdict=Verdict.ERROR)
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


def tick(slug: str, label: str, counts: Flips) -> Tick:
    """How many records turn good or bad at a build, and the matrix that shows them."""
    here = {key: count for key, count in counts.items() if key[0] == slug}
    befores = sorted({before for _slug, _kind, before in here})
    query = urlencode({"show": "flips", "build": [*befores, slug]}, doseq=True)
    return Tick(
        label,
        sum(count for (_, kind, _before), count in here.items() if kind == GOOD),
        sum(count for (_, kind, _before), count in here.items() if kind == BAD),
        f"{reverse('matrix')}?{query}",
    )
