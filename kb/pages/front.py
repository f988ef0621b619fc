"""The front page: the box, what many people see, where verdicts flip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlencode

from django.urls import reverse

from kb.languages import current_lang
from kb.lookup import symptoms
from kb.models import Flip, Standing, Symptom
from kb.versions import order

SHOWN, LINKED = 4, 3
GOOD, BAD = "first_good", "first_bad"
AXIS = 15
# Stands in the empty box; as printed, so in no language of the site.
EXAMPLE = """\
UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides(), \
attempting to materialize a grad_output with matching strides...
{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.995131923687488e-05, 'epoch': 0.36}\
"""

# Each flip: build, kind, the build before, and the record by id and title.
Flips = Sequence[tuple[str, str, str, str]]


@dataclass(frozen=True)
class Tick:
    """One tested build on the ruler, with the names of records that flip there.

    `address` is the matrix of just these flips.
    """

    label: str
    first_good: list[str]
    first_bad: list[str]
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
    symptoms: list[Symptom]
    flips: list[NamedFlip]
    axis: list[Tick]
    example: str = EXAMPLE


def build() -> FrontPage:
    tested = {row.slug: row.raw for row in order.tested_builds() if row.judged}
    labels = order.column_labels(tested)
    title = f"record__title_{current_lang()}"
    rows = Flip.objects.order_by("record").values_list(
        "build", "kind", "before", "record", title
    )
    named = [(*flip, f"{record} {title}") for *flip, record, title in rows]
    flips = newest_flips(tested, {build for build, *_rest in named})
    return FrontPage(
        records=Standing.objects.count(),
        builds=len(tested),
        symptoms=widest_symptoms(),
        flips=[
            NamedFlip(
                flip,
                labels.get(flip.before, flip.before),
                labels.get(flip.build, flip.build),
            )
            for flip in islice(flips, SHOWN)
        ],
        axis=[tick(slug, labels[slug], named) for slug in list(tested)[-AXIS:]],
    )


def newest_flips(tested: Iterable[str], flipping: set[str]) -> Iterable[Flip]:
    """Flips in the newest builds first; of one build by record, the newest first."""
    flips = Flip.objects.select_related("record").defer("record__html")
    for slug in reversed(list(tested)):
        if slug in flipping:
            yield from flips.filter(build=slug).order_by("-record")[:SHOWN]


def widest_symptoms() -> list[Symptom]:
    """Those that the most people were seen with, by all their causes."""

    def people(row: Symptom) -> int:
        return sum(int(cause.get("people", 1)) for cause in row.causes)

    return sorted(symptoms.every(), key=people, reverse=True)[:LINKED]


def tick(slug: str, label: str, flips: Flips) -> Tick:
    """Which records turn good or bad at a build, and the matrix that shows them."""
    here = [flip[1:] for flip in flips if flip[0] == slug]
    befores = sorted({before for _kind, before, _name in here})
    query = urlencode({"show": "flips", "build": [*befores, slug]}, doseq=True)
    return Tick(
        label,
        [name for kind, _before, name in here if kind == GOOD],
        [name for kind, _before, name in here if kind == BAD],
        f"{reverse('matrix')}?{query}",
    )
