"""A new record: its folder with open places, and the stub of a pasted log."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import OperationalError, ProgrammingError

from kb import choices
from kb.models import Record
from kb.records.facts import BUILD_STATES, FACTS_FILE, SLUG
from portable import harness

REFERENCE = re.compile(
    r"(?P<project>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)#(?P<number>[1-9]\d*)"
)
RECORD_ID = re.compile(r"NAN-(\d{4})")
# The files of a new record: valid as a draft, with a mark at every open place. Each
# @NAME@ is filled in; the words that a key may have come from the vocabularies.
TEMPLATES = Path(__file__).parent / "new_record"
# Where no capture is at hand.
PLAIN = {"CLASS": "nan_forward", "MATCH": "match = {norm = 1e-6}"}
# Where the pasted logs of the shipped records lie, and their answers.
LOGS = settings.BASE_DIR / "tests" / "logs"


class Refused(Exception):
    """The record cannot be made; the text says why and what to do."""


@dataclass(frozen=True)
class Neighbour:
    """A record folder that is there: its number, its name, its names elsewhere."""

    id: str
    folder: str
    aliases: list[str]


@dataclass(frozen=True)
class Skeleton:
    """Files to write, by path; nothing has been written yet."""

    record: str
    files: dict[Path, str]


def logs_for(root: Path, given: Path | None) -> Path | None:
    """The folder of pasted logs: as given, else that of the shipped records."""
    if given is not None:
        return given
    return LOGS if root.resolve() == Path(settings.ISSUES_DIR).resolve() else None


def shown(path: Path) -> str:
    """A path as it is typed at the root of the checkout."""
    path = path.absolute()
    inside = path.is_relative_to(settings.BASE_DIR)
    return str(path.relative_to(settings.BASE_DIR) if inside else path)


def new_skeleton(
    slug: str,
    reference: str,
    root: Path,
    logs: Path | None,
    draft: dict[str, str] | None = None,
) -> Skeleton:
    """The files of a new record below `root`. Raises Refused, writes nothing.

    `reference`: such as "pytorch/pytorch#12345", or "". `logs`: the folder of the
    pasted logs; None leaves them out. `draft`: of a capture, code and symptom class.
    """
    for _path, message in SLUG(slug):
        raise Refused(f"The slug {message}.")
    if not root.is_dir():
        raise Refused(f"{root} is not a folder of records.")
    folder = root / slug
    if folder.exists():
        raise Refused(
            f"{folder} exists already. Choose another slug, or edit that one."
        )
    records = list(neighbours(root))
    refuse_taken(reference, records)
    record = next_id([*(row.id for row in records), *stored_ids()])
    values = {"ID": record, "SLUG": slug, **source_values(reference), **vocabularies()}
    values |= draft or {**PLAIN, "CODE": template("code.py.txt", {})}
    files = {
        folder / FACTS_FILE: template(FACTS_FILE, values),
        folder / "article.en.md": template("article.en.md", values),
        folder / "article.zh.md": template("article.zh.md", values),
        folder / "repro.py": template("repro.py.txt", values),
        # An empty folder is not kept by git.
        folder / "evidence" / ".gitkeep": "",
    }
    if logs is not None:
        files |= log_stub(slug, record, logs)
    return Skeleton(record, files)


def write(skeleton: Skeleton) -> None:
    for path, text in skeleton.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def neighbours(root: Path) -> Iterator[Neighbour]:
    """The records that are there, as far as they can be read."""
    for path in sorted(root.glob(f"*/{FACTS_FILE}")):
        try:
            facts = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue
        aliases = facts.get("aliases")
        listed = aliases if isinstance(aliases, list) else []
        yield Neighbour(str(facts.get("id")), path.parent.name, listed)


def stored_ids() -> list[str]:
    """Ids of the site's own records, which may have no folder; none without tables."""
    try:
        return list(Record.objects.values_list("id", flat=True))
    except (OperationalError, ProgrammingError):
        return []


def next_id(taken: list[str]) -> str:
    """The number after the highest: numbers are never used again."""
    numbers = [int(found[1]) for found in map(RECORD_ID.fullmatch, taken) if found]
    return f"NAN-{max(numbers, default=0) + 1:04d}"


def refuse_taken(reference: str, records: list[Neighbour]) -> None:
    if reference and not REFERENCE.fullmatch(reference):
        raise Refused(
            f"--from must look like pytorch/pytorch#12345, not {reference!r}: owner, "
            "project and number of the report."
        )
    for row in records:
        if reference in row.aliases:
            raise Refused(
                f"{reference} is known already: {row.id}, in the folder {row.folder}. "
                "Add to that record what it lacks."
            )


def source_values(reference: str) -> dict[str, str]:
    found = REFERENCE.fullmatch(reference)
    if found is None:
        title = "TODO: title of the report"
        return {"ALIASES": "", "URL": "https://TODO", "TITLE": title}
    url = f"https://github.com/{found['project']}/issues/{found['number']}"
    title = f"TODO: title of {reference}"
    return {"ALIASES": f'"{reference}"', "URL": url, "TITLE": title}


def vocabularies() -> dict[str, str]:
    """The words that each key may have, for the notes beside it."""
    words = {
        "PUBLICATION": choices.Publication.values,
        "UPSTREAM": choices.Upstream.values,
        "SYMPTOM_CLASS": choices.SymptomClass.values,
        "AFFECTED_WHEN": choices.AffectedWhen.values,
        "HOLDS_ON": choices.HOLDS_ON[1:],
        "HOLDS_ANYWHERE_BY": choices.HOLDS_ANYWHERE_BY,
        "HOLDS_THERE_BY": choices.HOLDS_THERE_BY,
        "PRECONDITION_KEYS": choices.PRECONDITION_KEYS,
        "SIGNATURE_KINDS": choices.SIGNATURE_KINDS,
        "SIGNATURE_SEEN": choices.SIGNATURE_SEEN,
        "BUILD_STATES": BUILD_STATES,
        "FIX_KINDS": choices.FIX_KINDS,
        "RULE_SEVERITIES": choices.RULE_SEVERITIES,
        "WORKAROUND_KINDS": choices.WORKAROUND_KINDS,
        "CLAIM_KINDS": choices.ClaimKind.values,
        "EXPECTS": choices.Expects.values,
        "SOURCE_KINDS": choices.SOURCE_KINDS,
        "FIDELITY": harness.FIDELITIES,
        "DEVICE": harness.DEVICES,
    }
    return {name: ", ".join(values) for name, values in words.items()}


def template(name: str, values: dict[str, str]) -> str:
    text = (TEMPLATES / name).read_text("utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], text)


def log_stub(slug: str, record: str, logs: Path) -> dict[Path, str]:
    """The stub of a pasted log, and the list of answers with its entry."""
    stub, answers = logs / "known" / f"{slug}.log", logs / "known.toml"
    if stub.exists():
        raise Refused(f"{stub} exists already. Choose another slug, or remove it.")
    lines = answers.read_text(encoding="utf-8").splitlines()
    entry = f'{slug} = "{record}"'
    at = lines.index("[known]") + 1
    # As long as names come before it: the list is in the order of its names.
    while at < len(lines) and lines[at].partition(" = ")[0] < slug and lines[at]:
        at += 1
    text = "\n".join([*lines[:at], entry, *lines[at:]])
    return {stub: template("pasted.log", {}), answers: f"{text}\n"}
