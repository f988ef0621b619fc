"""Which entries speak of an installed version: what api.osv.dev answers to a query."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from kb.environments.environment import Environment
from kb.environments.package_lines import canonical
from kb.models import Finding, Record
from kb.releases.documented import facts_of_all
from kb.search.index.generation import current_generation
from kb.syndication.dates import verdict_rows
from kb.syndication.osv.documents import ECOSYSTEM, exported_entries
from kb.versions.affected import answer_for

PURL = re.compile(r"pkg:pypi/([\w.-]{1,100})(?:@([^?#]{1,100}))?(?:[?#].*)?")
MAX_NAME, MAX_VERSION = 100, 100


class QueryError(ValueError):
    """What is wrong with a query, in words for whoever sent it."""


@dataclass(frozen=True)
class Asked:
    """A package, and the installed version; "" asks for all entries of the package."""

    package: str
    version: str


def read_query(query: Any) -> Asked | None:
    """A query as api.osv.dev takes it; None for one that can find nothing here.

    That is every other ecosystem, and a commit. Raises QueryError.
    """
    if not isinstance(query, dict):
        raise QueryError("A query is an object.")
    if "commit" in query:
        return None
    package = query.get("package")
    if not isinstance(package, dict):
        raise QueryError('A query needs "package": {"name", "ecosystem"}.')
    version = text_of(query, "version", MAX_VERSION)
    if package.get("purl"):
        return read_purl(text_of(package, "purl", 4 * MAX_NAME), version)
    name = text_of(package, "name", MAX_NAME)
    ecosystem = text_of(package, "ecosystem", MAX_NAME)
    if not name or not (ecosystem or version):
        raise QueryError('"package" needs "name" and "ecosystem", or a "purl".')
    if ecosystem not in ("", ECOSYSTEM):
        return None
    return Asked(canonical(name), version)


def read_purl(purl: str, version: str) -> Asked | None:
    match = PURL.fullmatch(purl)
    if match is None:
        return None
    if match[2] and version:
        raise QueryError('A version stands in the "purl" or in "version", not in both.')
    found = {"version": unquote(match[2] or "") or version}
    return Asked(canonical(match[1]), text_of(found, "version", MAX_VERSION))


def text_of(query: Mapping[str, Any], key: str, longest: int) -> str:
    value = query.get(key, "")
    # No database takes NUL, and none a half of a surrogate pair.
    if not (isinstance(value, str) and len(value) <= longest and value.isprintable()):
        raise QueryError(
            f'"{key}" is a text of at most {longest} printable characters.'
        )
    return value


@lru_cache(maxsize=1)
def exported(records: int) -> Mapping[str, dict[str, Record]]:
    """By package the exported records and what they document. Not to be modified.

    `records`: the part of the generation that changes with records.
    """
    by_package: dict[str, dict[str, Record]] = defaultdict(dict)
    for pk, whole in facts_of_all(records).items():
        record = copy(whole)
        record.affected = exported_entries(whole)
        for entry in record.affected:
            by_package[canonical(entry["package"])][pk] = record
    return dict(by_package)


def exported_ids() -> set[str]:
    return set().union(*exported(current_generation()[0]).values())


def matching(asked: Iterable[Asked | None]) -> list[list[str]]:
    """For each question the ids of records whose entry says "affected".

    By runs on this very version where there were some, else by the documented range,
    as a look-up answers; unknown is not affected.
    """
    by_package = exported(current_generation()[0])
    questions = list(asked)
    torch = {item.version for item in questions if item and item.package == "torch"}
    tested = runs_on(torch - {""})
    return [
        sorted(
            record
            for record, facts in by_package.get(item.package, {}).items()
            if not item.version or is_affected(facts, item, tested.get(record, []))
        )
        if item
        else []
        for item in questions
    ]


def runs_on(versions: Iterable[str]) -> Mapping[str, list[Finding]]:
    """By record its verdicts on builds of exactly these versions."""
    by_record: dict[str, list[Finding]] = defaultdict(list)
    for row in verdict_rows().filter(build_raw__in=versions):
        by_record[row.record_id].append(row)
    return by_record


def is_affected(facts: Record, asked: Asked, findings: list[Finding]) -> bool:
    if asked.package == "torch":
        env = Environment(torch_raw=asked.version)
    else:
        env = Environment(packages={asked.package: asked.version})
    return answer_for(facts, env, findings).is_affected is True
