"""Which records affect an environment, asked of all of them at once.

What was run on the pasted build is kept by record, and each range that records share is
read once: ten thousand records take no longer than a page of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache

from kb.environments.environment import Environment
from kb.models import Finding, TestedBuild
from kb.releases import documented
from kb.releases.verdicts import KEPT_BUILDS, of_the_bug
from kb.search.index.generation import Generation
from kb.versions import affected

# Of a finding what an answer reads.
READ = (
    *("record_id", "check_name", "stale", "fidelity", "build_raw", "device_class"),
    *("device_name", "verdict", "verdict_reason", "made_with"),
)


def also_affecting(
    env: Environment, matched: Collection[str], generation: Generation
) -> list[str]:
    """Ids of the other visible records that affect the pasted environment."""
    if not env.is_given:
        return []
    ran = run_on(generation, builds_of(env.torch_raw, generation))
    answer = documented.answers(env)

    def is_affected(key: str, facts: documented.Facts) -> bool:
        if key in ran:
            known = documented.read(facts)
            return bool(affected.answer_for(known, env, ran[key]).is_affected)
        return bool(answer(facts).is_affected)

    every = documented.facts_of_all(generation[0])
    return [
        key
        for key, facts in every.items()
        if key not in matched and is_affected(key, facts)
    ]


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
def run_on(
    generation: Generation, builds: tuple[str, ...]
) -> Mapping[str, list[Finding]]:
    """By record the verdicts on these builds. Cached: not to be modified."""
    found: dict[str, list[Finding]] = defaultdict(list)
    if builds:
        for row in of_the_bug(builds).triggers().only(*READ):
            found[row.record_id].append(row)
    return dict(found)
