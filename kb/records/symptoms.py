"""Symptoms that many causes show alike, as files: `fixtures/symptoms/<slug>.toml`.

No database: which records exist is told by whoever loads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from kb.records import tellers
from kb.records.facts import SLUG
from kb.records.files import Problem, RecordError, facts_in, read_text
from kb.records.schema import (
    Key,
    both_languages,
    keys_problems,
    list_of,
    schema,
    table,
    text,
    whole_number,
)

# Beside the folder of the records, and how a problem names a file there.
FOLDER = "symptoms"


def predicate(value: Any) -> Iterator[tuple[str, str]]:
    try:
        tellers.parse(value if isinstance(value, str) else "")
    except ValueError as error:
        yield "", _("is not a predicate: %s") % error


CAUSE = (
    Key("slug", SLUG),
    Key("name", both_languages(200, one_line=True), optional=True),
    Key("ask", both_languages(300, one_line=True)),
    Key("when", list_of(predicate), optional=True),
    Key("never", list_of(predicate), optional=True),
    Key("people", whole_number, optional=True),
)
SIGNATURE = (
    Key("text", text(4000), optional=True),
    Key("when", predicate, optional=True),
)
KEYS = (
    Key("schema", schema),
    Key("slug", SLUG),
    Key("title", both_languages(200, one_line=True)),
    Key("summary", both_languages(600, one_line=True)),
    Key("words", list_of(text(100, one_line=True))),
    Key("signature", list_of(table(SIGNATURE), empty=False)),
    Key("cause", list_of(table(CAUSE), empty=False, unique=False)),
)


@dataclass(frozen=True)
class SymptomFile:
    """What one file says; `causes` in its order, the most telling first."""

    slug: str
    facts: dict[str, Any]

    @property
    def signatures(self) -> list[dict[str, str]]:
        return list(self.facts["signature"])

    @property
    def causes(self) -> list[dict[str, Any]]:
        return list(self.facts["cause"])


def read_symptoms(root: Path, known: Collection[str]) -> list[SymptomFile] | None:
    """Every symptom beside the records in `root`; None where there is no folder.

    `known`: slugs and aliases of records. Raises RecordError with every problem.
    """
    folder = root.parent / FOLDER
    if not folder.is_dir():
        return None
    files: list[SymptomFile] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.toml")):
        found = list(read_problems(path, known, files))
        problems += [Problem(f"../{FOLDER}/{path.name}", *problem) for problem in found]
    if problems:
        raise RecordError(problems)
    return files


def read_problems(
    path: Path, known: Collection[str], files: list[SymptomFile]
) -> Iterator[tuple[str, str]]:
    """(key, message) of each; a file without any is added to `files`."""
    try:
        facts = facts_in(read_text(path))
    except (OSError, ValueError) as error:
        yield "", str(error)
        return
    problems = list(keys_problems(facts, KEYS))
    if not problems:
        problems = list(sense_problems(path, facts, known))
    yield from problems
    if not problems:
        files.append(SymptomFile(facts["slug"], facts))


def sense_problems(
    path: Path, facts: dict[str, Any], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    if facts["slug"] != path.stem:
        yield "slug", _("must be the file's name, %s") % repr(path.stem)
    for at, sign in enumerate(facts["signature"]):
        if len(sign) != 1:
            yield f"signature[{at}]", _("has either text or when")
    seen: set[str] = set()
    for at, cause in enumerate(facts["cause"]):
        slug = cause["slug"]
        if slug not in known and "name" not in cause:
            message = _("no record is called %s; give the cause a name")
            yield f"cause[{at}].slug", message % slug
        if slug in seen:
            yield f"cause[{at}].slug", _("%s stands twice") % repr(slug)
        seen.add(slug)
