"""Records from files into the database and back, without losing either's changes.

Each row keeps two digests of the last load or dump: of the files as they were, and
of the files the row would have been written to. Whichever differs now has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from kb.findings import standings
from kb.models import Record, Repro
from kb.progress import Tell
from kb.publishing import symptoms
from kb.publishing.rows import apply, content_digest, record_to_file, repro_columns
from kb.records import rendering
from kb.records.files import (
    FACTS_FILE,
    REPRO_FILE,
    Problem,
    RecordError,
    RecordFile,
    ReproFacts,
    digest_of,
    in_folder,
    read_all,
    read_files,
    repro_problems,
    write_record,
)
from kb.records.symptoms import read_symptoms
from kb.search.index import writer

Force = Literal["files", "site"]


class ReproRefused(ValueError):
    """A repro's source breaks the contract; `errors` says where."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


# Header and checks of a repro's source. Raises ReproRefused.
Inspect = Callable[[str], ReproFacts]


class Change(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT_SITE = "kept_site"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class Loaded:
    """What a load did, or would have done, to one record."""

    id: str
    slug: str
    change: Change


@dataclass(frozen=True)
class LoadReport:
    """`done` is False where a conflict stopped the whole load."""

    records: list[Loaded]
    without_folder: list[str]
    done: bool = True

    @property
    def conflicts(self) -> list[Loaded]:
        return [row for row in self.records if row.change == Change.CONFLICT]


@dataclass(frozen=True)
class DumpReport:
    """Ids by what happened; with conflicts nothing was written."""

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """One record's files with what a load is to do with them."""

    file: RecordFile
    repros: Mapping[str, ReproFacts]
    change: Change


# --- loading ------------------------------------------------------------------------
def load_records(
    root: Path,
    *,
    inspect: Inspect,
    force: Force | None = None,
    on_new_repros: Callable[[Record], None] | None = None,
    tell: Tell | None = None,
) -> LoadReport:
    """Load every folder below `root`, and the symptoms beside it, or nothing.

    `force` says whose changes win where both sides changed. Rows without a folder
    stay. `on_new_repros` gets each record whose repros changed, in the transaction;
    `tell` hears how many are done.
    Raises RecordError with every problem of every folder.
    """
    other_ids = set(Record.objects.values_list("id", flat=True))
    files = read_all(root, other_ids)
    repros = inspect_all(files, inspect)
    known = {*other_ids, *(file.id for file in files)}
    symptom_files = read_symptoms(root, known)
    problems = list(taken_problems(files))
    if problems:
        raise RecordError(problems)
    rows = rows_by_id()
    plans = make_plans(files, repros, rows, force)
    without_folder = sorted(rows.keys() - {file.id for file in files})
    if any(plan.change == Change.CONFLICT for plan in plans):
        untouched = [Loaded(p.file.id, p.file.slug, p.change) for p in plans]
        return LoadReport(untouched, without_folder, done=False)
    # Rendered before the transaction, to keep that short.
    html = new_html(plans, rows)
    with transaction.atomic():
        current = rows_by_id()
        if plans != make_plans(files, repros, current, force):
            message = _("a record was edited while it was loaded; load again")
            raise RecordError([Problem(str(root), "", message)])
        loaded = [
            carry_out(p, current.get(p.file.id), html.get(p.file.id), on_new_repros)
            for p in told(plans, tell)
        ]
        if symptom_files is not None:
            symptoms.store(symptom_files)
        writer.bring_up_to_date()
        standings.bring_up_to_date()
    return LoadReport(loaded, without_folder)


def told(plans: list[Plan], tell: Tell | None) -> Iterator[Plan]:
    """The plans, each announced before its turn."""
    for number, plan in enumerate(plans):
        if tell:
            tell(number, len(plans), "")
        yield plan


def make_plans(
    files: list[RecordFile],
    repros: Mapping[str, Mapping[str, ReproFacts]],
    rows: Mapping[str, Record],
    force: Force | None,
) -> list[Plan]:
    return [
        Plan(file, repros[file.id], decide(file, rows.get(file.id), force))
        for file in files
    ]


def rows_by_id() -> dict[str, Record]:
    return {row.id: row for row in Record.objects.prefetch_related("claims", "repros")}


def inspect_all(
    files: list[RecordFile], inspect: Inspect
) -> dict[str, dict[str, ReproFacts]]:
    """Facts of every repro by record and name. Raises RecordError with all problems."""
    facts: dict[str, dict[str, ReproFacts]] = {}
    problems: list[Problem] = []
    for file in files:
        file_problems: list[Problem] = []
        repros = {}
        for name, source in file.repros.items():
            try:
                repros[name] = inspect(source)
            except ReproRefused as error:
                file_problems += [
                    Problem(f"{name}.py", "", text) for text in error.errors
                ]
        if not file_problems:
            file_problems = repro_problems(file, repros)
        problems += in_folder(file.slug, file_problems)
        facts[file.id] = repros
    if problems:
        raise RecordError(problems)
    return facts


def taken_problems(files: list[RecordFile]) -> Iterator[Problem]:
    """Slugs and aliases that belong to records without a folder."""
    others = Record.objects.exclude(id__in=[file.id for file in files])
    slugs = {row.slug: row.id for row in others}
    aliases = {alias: row.id for row in others for alias in row.aliases}
    for file in files:
        where = f"{file.slug}/{FACTS_FILE}"
        if file.slug in slugs:
            message = _("%s has this slug") % slugs[file.slug]
            yield Problem(where, "slug", message)
        for alias in file.facts["aliases"]:
            if alias in aliases:
                names = {"alias": alias, "id": aliases[alias]}
                message = _("%(alias)s belongs to %(id)s") % names
                yield Problem(where, "aliases", message)


def decide(file: RecordFile, row: Record | None, force: Force | None) -> Change:
    if row is None:
        return Change.CREATED
    site = content_digest(row)
    site_changed = site != row.content_digest
    if file.files_digest == row.files_digest:
        return Change.KEPT_SITE if site_changed else Change.UNCHANGED
    if site == digest_of(write_record(file)):
        return Change.UNCHANGED
    if not site_changed or force == "files":
        return Change.UPDATED
    return Change.KEPT_SITE if force == "site" else Change.CONFLICT


def new_html(
    plans: list[Plan], rows: Mapping[str, Record]
) -> dict[str, rendering.Html]:
    """HTML to store, by record; none of those whose stored HTML is current."""
    sources = {
        plan.file.id: source
        for plan in plans
        if (source := source_of_html(plan, rows.get(plan.file.id)))
    }
    try:
        rendered = rendering.html_of_all(list(sources.values()))
    except rendering.SectionError as error:
        raise RecordError(in_folder(error.slug, [error.problem])) from error
    return dict(zip(sources, rendered, strict=True))


def source_of_html(plan: Plan, row: Record | None) -> RecordFile | None:
    if plan.change in (Change.CREATED, Change.UPDATED):
        return plan.file
    if row is not None and row.html_version != rendering.VERSION:
        return record_to_file(row)
    return None


def carry_out(
    plan: Plan,
    row: Record | None,
    html: dict[str, dict[str, object]] | None,
    on_new_repros: Callable[[Record], None] | None,
) -> Loaded:
    before = {repro.name: repro.digest for repro in row.repros.all()} if row else {}
    record = row or Record(id=plan.file.id)
    if plan.change in (Change.CREATED, Change.UPDATED):
        record._change_reason = "load_records"
        apply(plan.file, plan.repros, record, html or {})
    else:
        refresh(plan, record, html)
    rows = Repro.objects.filter(record=record)
    changed = before != {repro.name: repro.digest for repro in rows}
    if changed and on_new_repros:
        on_new_repros(record)
    return Loaded(record.id, record.slug, plan.change)


def refresh(
    plan: Plan, record: Record, html: dict[str, dict[str, object]] | None
) -> None:
    """Update digests, headers and HTML of unchanged content, without a revision."""
    values: dict[str, object] = {"files_digest": plan.file.files_digest}
    if plan.change == Change.UNCHANGED:
        values["content_digest"] = content_digest(record)
        for name, facts in plan.repros.items():
            columns = repro_columns(plan.file.repros[name], facts)
            record.repros.filter(name=name).update(**columns)
    if html is not None:
        values |= {"html": html, "html_version": rendering.VERSION}
    Record.objects.filter(pk=record.pk).update(**values)


# --- dumping ------------------------------------------------------------------------
def dump_records(
    root: Path, ids: Collection[str] | None = None, *, force: bool = False
) -> DumpReport:
    """Write records as canonical files below `root`; evidence there is left alone.

    A folder that changed since the last load or dump is a conflict unless `force`;
    then nothing is written. Only a dump to ISSUES_DIR, where loads come from, is
    remembered. Raises KeyError for an unknown id.
    """
    rows = rows_by_id()
    chosen = sorted(rows) if ids is None else sorted(ids)
    files = {pk: write_record(record_to_file(rows[pk])) for pk in chosen}
    on_disk = {pk: folder_files(root / rows[pk].slug) for pk in chosen}
    conflicts = [
        pk
        for pk in chosen
        if on_disk[pk]
        and on_disk[pk] != files[pk]
        and digest_of(on_disk[pk]) != rows[pk].files_digest
    ]
    if conflicts and not force:
        return DumpReport(conflicts=conflicts)
    written = [pk for pk in chosen if on_disk[pk] != files[pk]]
    for pk in written:
        write_folder(root / rows[pk].slug, files[pk])
    if root.resolve() == settings.ISSUES_DIR.resolve():
        remember(files)
    return DumpReport(written, [pk for pk in chosen if pk not in written])


def folder_files(folder: Path) -> dict[str, bytes]:
    """The record's files in a folder; none where there is no folder."""
    if not folder.is_dir():
        return {}
    return {name: text.encode() for name, text in read_files(folder, []).items()}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        draft = folder / f".{name}.new"
        draft.write_bytes(content)
        draft.replace(folder / name)
    for path in folder.iterdir():
        if REPRO_FILE.fullmatch(path.name) and path.name not in files:
            path.unlink()


def remember(files: Mapping[str, Mapping[str, bytes]]) -> None:
    for pk, content in files.items():
        digest = digest_of(content)
        Record.objects.filter(pk=pk).update(files_digest=digest, content_digest=digest)
