"""Which records affect an environment, asked of all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache

from kb.environments.environment import Environment
from kb.models import Finding, TestedBuild
from kb.releases import documented
from kb.search.index.generation import Generation
from kb.versions import affected

KEPT_BUILDS = 32
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
    return [
        key
        for key, known in documented.facts_of_all(generation[0]).items()
        if key not in matched
        and affected.answer_for(known, env, ran.get(key, ())).is_affected
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
        rows = Finding.objects.fresh().triggers().of_the_bug().order_by()
        for row in rows.filter(build__in=builds).only(*READ):
            found[row.record_id].append(row)
    return dict(found)
