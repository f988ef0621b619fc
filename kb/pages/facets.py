"""The filters beside a list: facets, their values in the reader's words, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import QueryDict
from django.utils.translation import gettext_lazy

from kb import wording
from kb.choices import SymptomClass, Upstream
from kb.search.ranking.filters import FACETS, VERIFIED, most_tested
from kb.versions.order import tested_builds

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

# Values of a facet that stand there without being folded out.
OPEN = 10


@dataclass(frozen=True)
class Option:
    value: str
    label: str
    count: int
    checked: bool


@dataclass(frozen=True)
class Facet:
    name: str
    label: str
    options: list[Option]

    @property
    def first(self) -> list[Option]:
        """The commonest values, and whatever is chosen."""
        return [
            option
            for at, option in enumerate(self.options)
            if at < OPEN or option.checked
        ]

    @property
    def rest(self) -> list[Option]:
        return [option for option in self.options[OPEN:] if not option.checked]


def chosen_facets(parameters: QueryDict) -> dict[str, list[str]]:
    """The facets that the address names, with their values."""
    return {name: values for name in FACETS if (values := parameters.getlist(name))}


def chosen_build(parameters: QueryDict) -> tuple[str, list[str]]:
    """The build in the address, else the most tested one; and every tested build."""
    builds = tested_builds()
    slugs = [build.slug for build in reversed(builds)]
    requested = parameters.get("build", "")
    return (requested if requested in slugs else most_tested(builds)), slugs


def facets(
    counts: Mapping[str, Counter[str]], chosen: Mapping[str, list[str]]
) -> Iterator[Facet]:
    """Facets with the values that any record has, or that are chosen."""
    for name, label in FACETS.items():
        checked = chosen.get(name, [])
        values = counts[name] + Counter()
        order = [value for value, _count in values.most_common()]
        order += [value for value in dict.fromkeys(checked) if value not in values]
        options = [
            Option(value, value_label(name, value), values[value], value in checked)
            for value in order
        ]
        if options:
            yield Facet(name, str(label), options)


LABELS: dict[str, dict[str, _StrPromise]] = {
    "symptom": dict(SymptomClass.choices),
    "upstream": dict(Upstream.choices),
    "workaround": {VERIFIED: gettext_lazy("verified by execution")},
    "verdict": {name: text.label for name, text in wording.VERDICT_BOXES.items()},
}


def value_label(facet: str, value: str) -> str:
    return str(LABELS.get(facet, {}).get(value, value))
