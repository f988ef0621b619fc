"""Which records affect an environment, asked of all of them at once.

What runs on the pasted build show is kept as sets of records, and each range that
records share is read once: ten thousand records take no longer than a page of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache

from django.db.models import Q

from kb.choices import OUR_ORIGINS, Verdict
from kb.environments.environment import Environment
from kb.models import Record, TestedBuild
from kb.releases import documented
from kb.releases.verdicts import (
    KEPT_BUILDS,
    Keys,
    joined,
    joined_key,
    of_the_bug,
)
from kb.search.index.generation import Generation
from kb.versions import affected

RECORD_KEY = joined_key("record_id")


def also_affecting(
    env: Environment, matched: Collection[str], generation: Generation
) -> list[str]:
    """Ids of the other visible records that affect the pasted environment."""
    if not env.is_given:
        return []
    bad, judged = judged_on(generation, builds_of(env.torch_raw, generation))
    fixes = fixes_of_all(generation[0])
    answer = documented.answers(env)

    def is_affected(key: str, facts: documented.Facts) -> bool:
        if key in judged:
            return key in bad
        # A fix that is named can only make it less sure: most need not be asked again.
        return bool(answer(facts).is_affected) and (
            key not in fixes or is_affected_still(facts, fixes[key], env)
        )

    every = documented.facts_of_all(generation[0])
    return [
        key
        for key, facts in every.items()
        if key not in matched and is_affected(key, facts)
    ]


def is_affected_still(facts: documented.Facts, fixes: str, env: Environment) -> bool:
    """Whether it affects, with the fixes that its record names."""
    known = documented.read(facts)._replace(fixes=json.loads(fixes))
    return bool(affected.answer_for(known, env).is_affected)


def builds_of(raw: str | None, generation: Generation) -> tuple[str, ...]:
    """The slugs of the builds of this version on which a verdict stands."""
    return builds_by_version(generation).get(raw or "", ())


@lru_cache(maxsize=1)
def builds_by_version(_generation: Generation) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for raw, slug in TestedBuild.objects.values_list("raw", "slug"):
        found[raw] = (*found.get(raw, ()), slug)
    return found


@lru_cache(maxsize=KEPT_BUILDS)
def judged_on(generation: Generation, builds: tuple[str, ...]) -> tuple[Keys, Keys]:
    """The records that runs show to be affected on these builds, and all they judge.

    As `affected.tested_answer` says of one record: what was run here or came with it
    comes before what was sent, and the bug that was seen before one that was not.
    """
    if not builds:
        return frozenset(), frozenset()
    ours, bug = Q(origin__in=OUR_ORIGINS), Q(verdict=Verdict.BUG_PRESENT)
    clean = Q(verdict=Verdict.BUG_ABSENT)
    bad, good, sent_bad, sent_good = joined(
        of_the_bug(builds).triggers(),
        RECORD_KEY,
        *(ours & bug, ours & clean, ~ours & bug, ~ours & clean),
    )
    return bad | (sent_bad - good), bad | good | sent_bad | sent_good


@lru_cache(maxsize=1)
def fixes_of_all(records: int) -> Mapping[str, str]:
    """What is said to have fixed it, as the database keeps it, where something is.

    `records`: the part of the generation that changes with records.
    """
    rows = Record.objects.visible().order_by()
    texts = rows.values_list("pk", documented.AsText("fixes"))
    return {pk: text for pk, text in texts if text != "[]"}
