"""What records document of a build, asked of all of them at once.

Thousands of records share some hundred ranges: each is read and asked once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import F, TextField
from django.db.models.functions import Cast

from kb.environments.environment import Environment
from kb.environments.package_lines import canonical
from kb.models import Record
from kb.versions.affected import Answer, Documented, answer_for

MOST_RANGES = 20_000


class AsText(Cast):
    """JSON as the database keeps it."""

    def __init__(self, column: str) -> None:
        super().__init__(column, TextField())

    def as_sqlite(self, compiler: Any, connection: Any, **_options: Any) -> Any:
        # It is text there: a cast would take as long again as reading it.
        return compiler.compile(self.get_source_expressions()[0])


class Facts(NamedTuple):
    """The columns of `Documented`, as the text that the database keeps."""

    affected: str
    affected_when: str
    preconditions: str
    fixes: str
    holds_on: str
    upstream: str


@lru_cache(maxsize=1)
def facts_of_all(records: int) -> Mapping[str, Facts]:
    """Of every published record, by id. Cached: not to be modified.

    `records`: the part of the generation that changes with records.
    """
    rows = Record.objects.visible().order_by("pk").values_list("pk")
    texts = rows.annotate(
        affected_text=AsText("affected"),
        when=F("affected_when"),
        preconditions_text=AsText("preconditions"),
        fixes_text=AsText("fixes"),
        holds_text=AsText("holds_on"),
        upstream_text=F("upstream"),
    )
    return {pk: Facts(*columns) for pk, *columns in texts}


@lru_cache(maxsize=MOST_RANGES)
def read(facts: Facts) -> Documented:
    return Documented(
        affected=json.loads(facts.affected),
        affected_when=facts.affected_when,
        preconditions=json.loads(facts.preconditions),
        fixes=json.loads(facts.fixes),
        holds_on=json.loads(facts.holds_on),
        upstream=facts.upstream,
    )


@lru_cache(maxsize=MOST_RANGES)
def packages_of(facts: Facts) -> frozenset[str]:
    """The packages in which the bug lives; none where the record names none."""
    return frozenset(canonical(entry["package"]) for entry in read(facts).affected)


def answers(env: Environment) -> Callable[[Facts], Answer]:
    """What each record's documents say of this environment."""
    known: dict[Facts, Answer] = {}

    def answer(facts: Facts) -> Answer:
        if facts not in known:
            known[facts] = answer_for(read(facts), env)
        return known[facts]

    return answer
