"""A comparison narrowed to what is installed: a pasted `pip freeze`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.environments.environment import Environment
from kb.environments.package_lines import canonical
from kb.releases.documented import packages_of
from kb.versions.affected import Documented, unverified_preconditions

TORCH = "torch"


@dataclass(frozen=True)
class Narrowed:
    """`records`: those that can concern this environment.

    `left_out`: package that is not installed -> records about it alone. `unsettled`:
    what a list of packages does not tell (a precondition) -> records it matters to.
    `other_packages`: records that also depend on versions of these installed packages;
    the runs here did not have them.
    """

    env: Environment
    records: list[str]
    left_out: dict[str, list[str]]
    unsettled: dict[str, list[str]]
    other_packages: dict[str, list[str]]


def narrow(facts: Mapping[str, Documented], env: Environment) -> Narrowed:
    found = Narrowed(env, [], {}, {}, {})
    here = {TORCH, *map(canonical, env.packages)}
    for record, fact in facts.items():
        packages = packages_of(fact)
        if packages and not packages & here:
            for package in packages:
                found.left_out.setdefault(package, []).append(record)
            continue
        found.records.append(record)
        for key in unverified_preconditions(fact.preconditions, env):
            found.unsettled.setdefault(key, []).append(record)
        for package in sorted(packages - {TORCH}):
            if package in here:
                found.other_packages.setdefault(package, []).append(record)
    return found
