"""Evidence that comes with the records: `fixtures/issues/<slug>/evidence/*.json`.

The new files of a folder are one transaction, as a record's standing follows from all
its findings: whoever is killed loses the folder at hand, and the next call goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from django.db import transaction

from kb.choices import OUR_ORIGINS, SHIPPED
from kb.models import Record
from kb.progress import Tell
from runner.evidence.store import (
    MAX_BYTES,
    EvidenceRefused,
    keep,
    parsed,
    row_of,
    verify,
)
from runner.models import Evidence

# In one file: some hundred times what the largest that was written has.
MOST_VALUES = 4_000_000


@dataclass
class EvidenceReport:
    """Loaded files by outcome; refused ones with their reason.

    `unfinished`: sweeps of a kit that lack cells, with how many they have.
    """

    added: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unfinished: list[tuple[str, int]] = field(default_factory=list)

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Note what is refused in the block, under this name, and go on behind it."""
        try:
            yield
        except EvidenceRefused as error:
            self.refused.append((name, str(error)))


def load_evidence(
    root: Path, report: EvidenceReport | None = None, tell: Tell | None = None
) -> EvidenceReport:
    """Add every `<root>/<slug>/evidence/*.json`, including those after a refused file.

    What is ours already of the folder's record is not verified again. Extends and
    returns `report`, or a new one; `tell` hears how many of the new files are done.
    """
    report = report or EvidenceReport()
    ours = Evidence.objects.filter(origin__in=OUR_ORIGINS)
    stored = dict(ours.values_list("pk", "record__slug"))
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
    record = Record.objects.filter(slug=folder.name).prefetch_related("repros").first()
    rows: dict[str, Evidence] = {}
    with transaction.atomic():
        for path in paths:
            name = str(path.relative_to(folder.parent))
            with report.refusing(name):
                body = read_file(path)
                check_folder(body, folder.name, record)
                verify(body)
                row = row_of(body, record, SHIPPED)
                (report.known if row.digest in rows else report.added).append(name)
                rows.setdefault(row.digest, row)
        keep(list(rows.values()))


def digest_in(path: Path) -> str:
    """The digest that a file claims, "" where it cannot be read."""
    try:
        return str(read_file(path).get("digest"))
    except EvidenceRefused:
        return ""


def bytes_of(path: Path, most: int = MAX_BYTES) -> bytes:
    """What is in a file of JSON. Raises EvidenceRefused where that is no such file.

    Neither a pipe nor a device, which have no end; not more than `most` bytes; and not
    what takes gigabytes in memory.
    """
    if not path.is_file():
        raise EvidenceRefused("It is no regular file.")
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise EvidenceRefused(f"It cannot be read: {error.strerror}.") from error
    if len(data) > most:
        raise EvidenceRefused(f"It is larger than {most} bytes.")
    if data.startswith(b"PK"):
        raise EvidenceRefused("It is a zip: load the file that --json wrote.")
    values = data.count(b",") + data.count(b"{") + data.count(b"[")
    if values > MOST_VALUES:
        raise EvidenceRefused(f"It has more than {MOST_VALUES} values.")
    return data


def read_file(path: Path) -> dict[str, Any]:
    """The object in a file of a record's folder, which leads nowhere else."""
    if path.is_symlink() or path.parent.is_symlink():
        raise EvidenceRefused("It is a link: copy the file there.")
    return parsed(bytes_of(path))


def check_folder(body: dict[str, Any], slug: str, record: Record | None) -> None:
    if record is None:
        raise EvidenceRefused(f"No record {slug} is loaded: run load_records first.")
    if body.get("record") != record.id:
        raise EvidenceRefused(f"It is about {body.get('record')}, not {record.id}.")
