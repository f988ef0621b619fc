"""What a list of packages has, in groups: the answer to nothing but a list."""

from __future__ import annotations

from typing import Any

from kb.addresses import record_urls
from kb.choices import Upstream
from kb.languages import Text as _
from kb.lookup.affecting import also_affecting
from kb.lookup.facts import Facts
from kb.models import Record
from kb.search.index.generation import Generation

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
NO_TORCH = _("this list, which names no torch")
FIELDS = ("slug", "title_en", "title_zh", "upstream", "symptom_class", "fixes")


def affecting_list(facts: Facts, generation: Generation) -> list[Json]:
    """What a list of packages has, in groups; by design apart."""
    ids = also_affecting(facts.environment, set(), generation)
    rows = Record.objects.visible().only(*FIELDS).in_bulk(ids)
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
    return OF_LIST.filled(
        torch=f"torch {raw}" if raw else NO_TORCH,
        **{name: counts.get(name, 0) for name in GROUPS},
    )
