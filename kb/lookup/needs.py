"""What a record takes besides its symptom: packages, cards, settings, types."""

from __future__ import annotations

from kb.environments.package_lines import canonical
from kb.lookup.facts import Facts
from kb.models import Record


def is_possible_here(row: Record | None, facts: Facts) -> bool:
    """A number alone lists no record whose package, card or mode is not there."""
    if row is None:
        return False
    others = needed_packages(row)
    if others and not any(
        facts.has("package", name) or name in facts.low for name in others
    ):
        return False
    for item in row.preconditions:
        if item["key"] == "gpu_arch" and not facts.cards_like(item["value"]):
            return False
        absent = item["key"] == "flag" and item["value"].startswith("no ")
        if absent and facts.has("passed", item["value"].removeprefix("no ")):
            return False
        compiled = item["key"] == "flag" and "compile" in item["value"]
        if compiled and not facts.has("mode", "compile"):
            return False
        dtypes = facts.values.get("dtype") if item["key"] == "dtype" else None
        if dtypes and not any(name in item["value"] for name in dtypes):
            return False
    return True


def flags_of(row: Record) -> set[str]:
    """Names of arguments that it takes: `is_causal` of "is_causal=True"."""
    flags = (item["value"] for item in row.preconditions if item["key"] == "flag")
    names = (flag.partition("=")[0].split(" ")[0] for flag in flags)
    return {name for name in names if name.isidentifier() and name != "no"}


def needed_packages(row: Record) -> set[str]:
    """Of which one has to be there; none where torch alone has the bug as well."""
    named = {canonical(entry["package"]) for entry in row.affected}
    return set() if "torch" in named else named
