"""Symptoms that many causes show alike, as files: `fixtures/symptoms/<slug>.toml`.

No database: which records exist is told by whoever loads them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from kb.records.facts import RECORD_ID, SLUG
from kb.records.files import Problem, RecordError, read_text
from kb.records.values import (
    Key,
    both_languages,
    keys_problems,
    list_of,
    schema,
    table,
    text,
)

# Beside the folder of the records, and how a problem names a file there.
FOLDER = "symptoms"
CAUSE = (Key("record", RECORD_ID), Key("tells", both_languages(600, one_line=True)))
KEYS = (
    Key("schema", schema),
    Key("slug", SLUG),
    Key("title", both_languages(200, one_line=True)),
    Key("summary", both_languages(600, one_line=True)),
    Key("words", list_of(text(100, one_line=True))),
    Key("signature", list_of(table((Key("text", text(4000)),)), empty=False)),
    Key("cause", list_of(table(CAUSE), empty=False, unique=False)),
)


@dataclass(frozen=True)
class SymptomFile:
    """What one file says; `causes` in its order, the most telling first."""

    slug: str
    facts: dict[str, Any]

    @property
    def signatures(self) -> list[str]:
        return [row["text"] for row in self.facts["signature"]]

    @property
    def causes(self) -> list[dict[str, Any]]:
        return list(self.facts["cause"])


def read_symptoms(root: Path, known_ids: Collection[str]) -> list[SymptomFile] | None:
    """Every symptom beside the records in `root`; None where there is no folder.

    Raises RecordError with every problem of every file.
    """
    folder = root.parent / FOLDER
    if not folder.is_dir():
        return None
    files: list[SymptomFile] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.toml")):
        found = list(read_problems(path, known_ids, files))
        problems += [Problem(f"../{FOLDER}/{path.name}", *problem) for problem in found]
    if problems:
        raise RecordError(problems)
    return files


def read_problems(
    path: Path, known_ids: Collection[str], files: list[SymptomFile]
) -> Iterator[tuple[str, str]]:
    """(key, message) of each; a file without any is added to `files`."""
    try:
        facts = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        yield "", _("is not TOML: %s") % error
        return
    except (OSError, ValueError) as error:
        yield "", str(error)
        return
    problems = list(keys_problems(facts, KEYS))
    if not problems:
        problems = list(sense_problems(path, facts, known_ids))
    yield from problems
    if not problems:
        files.append(SymptomFile(facts["slug"], facts))


def sense_problems(
    path: Path, facts: dict[str, Any], known_ids: Collection[str]
) -> Iterator[tuple[str, str]]:
    if facts["slug"] != path.stem:
        yield "slug", _("must be the file's name, %s") % repr(path.stem)
    seen: set[str] = set()
    for at, cause in enumerate(facts["cause"]):
        record = cause["record"]
        if record not in known_ids:
            yield f"cause[{at}].record", _("there is no record %s") % record
        if record in seen:
            yield f"cause[{at}].record", _("%s stands twice") % repr(record)
        seen.add(record)
