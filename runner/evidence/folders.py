"""Evidence that comes with the records: `fixtures/issues/<slug>/evidence/*.json`.

The new files of a folder are one transaction, as a record's standing follows from all
its findings: whoever is killed loses the folder at hand, and the next call goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from django.db import transaction

from kb.choices import SHIPPED
from kb.models import Record
from kb.progress import Tell
from runner.evidence.store import (
    MAX_BYTES,
    EvidenceRefused,
    keep,
    row_of,
    verify,
)
from runner.models import Evidence


@dataclass
class EvidenceReport:
    """Loaded files by outcome; refused ones with their reason.

    `unfinished`: sweeps of a kit that lack cells, with how many they have.
    """

    added: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unfinished: list[tuple[str, int]] = field(default_factory=list)


def load_evidence(
    root: Path, report: EvidenceReport | None = None, tell: Tell | None = None
) -> EvidenceReport:
    """Add every `<root>/<slug>/evidence/*.json`, including those after a refused file.

    What is stored for the folder's record is not verified again. Extends and returns
    `report`, or a new one; `tell` hears how many of the new files are done.
    """
    report = report or EvidenceReport()
    stored = dict(Evidence.objects.values_list("pk", "record__slug"))
    new = []
    for path in sorted(root.glob("*/evidence/*.json")):
        if stored.get(digest_in(path)) == path.parent.parent.name:
            report.known.append(str(path.relative_to(root)))
        else:
            new.append(path)
    done = 0
    for folder, group in groupby(new, key=lambda path: path.parent.parent):
        paths = list(group)
        if tell:
            tell(done, len(new), folder.name)
        load_folder(folder, paths, report)
        done += len(paths)
    return report


def load_folder(folder: Path, paths: Iterable[Path], report: EvidenceReport) -> None:
    record = Record.objects.filter(slug=folder.name).first()
    rows: dict[str, Evidence] = {}
    with transaction.atomic():
        for path in paths:
            name = str(path.relative_to(folder.parent))
            try:
                body = read_file(path)
                check_folder(body, folder.name, record)
                verify(body)
                row = row_of(body, record, SHIPPED)
            except EvidenceRefused as error:
                report.refused.append((name, str(error)))
            else:
                (report.known if row.digest in rows else report.added).append(name)
                rows.setdefault(row.digest, row)
        keep(list(rows.values()))


def digest_in(path: Path) -> str:
    """The digest that a file claims, "" where it cannot be read."""
    try:
        return str(read_file(path).get("digest"))
    except EvidenceRefused:
        return ""


def read_file(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_BYTES:
        raise EvidenceRefused(f"It is larger than {MAX_BYTES} bytes.")
    try:
        body = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise EvidenceRefused(f"It is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise EvidenceRefused("It is not a JSON object.")
    return body


def check_folder(body: dict[str, Any], slug: str, record: Record | None) -> None:
    if record is None:
        raise EvidenceRefused(f"No record {slug} is loaded: run load_records first.")
    if body.get("record") != record.id:
        raise EvidenceRefused(f"It is about {body.get('record')}, not {record.id}.")
