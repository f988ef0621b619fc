"""Which records affect an environment, and the answer to a list of packages alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from kb.addresses import record_urls
from kb.choices import Upstream
from kb.environments.environment import Environment
from kb.languages import Text as _
from kb.lookup.decision import joined
from kb.lookup.facts import Facts
from kb.models import Finding, Record, TestedBuild
from kb.releases import documented
from kb.search.index.generation import Generation
from kb.versions import affected

Json = dict[str, Any]
GROUPS = {
    "silent": (_("Silently wrong"), ("silent_wrong", "wrong_grad", "lost_grad")),
    "nan": (_("NaN or infinite"), ("nan_forward", "nan_grad")),
    "error": (_("Ends in an error"), ("error",)),
    "by_design": (_("By design"), ()),
}
OF_LIST = _(
    "For {torch}: {silent} silently wrong, {nan} NaN, {error} errors; {by_design} "
    "more are by design. A package list cannot tell which of them your code meets."
)
NO_TORCH = _("this list, which names no single version of torch")
ADD_TORCH = _(
    "Bugs of torch itself are not counted: add what torch.__version__ prints."
)
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
    ran = run_on(generation, builds_of(env.torch_raw))
    return [
        key
        for key, known in documented.facts_of_all(generation[0]).items()
        if key not in matched
        and affected.answer_for(known, env, ran.get(key, ())).is_affected
    ]


def builds_of(raw: str | None) -> tuple[str, ...]:
    """The slugs of the builds of this version on which a verdict stands."""
    rows = TestedBuild.objects.filter(raw=raw or "")
    return tuple(rows.values_list("slug", flat=True))


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


def affecting_list(facts: Facts, generation: Generation) -> list[Json]:
    """What a list of packages has, in groups; by design apart."""
    ids = also_affecting(facts.environment, set(), generation)
    rows = Record.objects.visible().without_prose().in_bulk(ids)
    groups: dict[str, list[Json]] = {name: [] for name in GROUPS}
    for pk in ids:
        if pk in rows:
            groups[group_of(rows[pk])].append(row_of(rows[pk]))
    return [
        {"group": name, "title": dict(GROUPS[name][0]), "records": listed}
        for name, listed in groups.items()
        if listed
    ]


def group_of(row: Record) -> str:
    if row.upstream == Upstream.BY_DESIGN:
        return "by_design"
    named = (
        name for name, (_t, classes) in GROUPS.items() if row.symptom_class in classes
    )
    return next(named)


def row_of(row: Record) -> Json:
    """`fixed_by`: the versions to upgrade to."""
    fixed = [
        f"{fix['package']} {fix['version']}" for fix in row.fixes if fix["version"]
    ]
    return {
        "record": row.pk,
        "title": row.both("title"),
        "fixed_by": fixed,
        "urls": record_urls(row),
    }


def of_list(facts: Facts, affecting: list[Json]) -> Json:
    """The deciding sentence of an answer to a list of packages."""
    counts = {group["group"]: len(group["records"]) for group in affecting}
    raw = facts.environment.torch_raw
    said = OF_LIST.filled(
        torch=f"torch {raw}" if raw else NO_TORCH,
        **{name: counts.get(name, 0) for name in GROUPS},
    )
    return said if raw else joined([said, ADD_TORCH.filled()])
