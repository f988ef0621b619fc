"""Records from their files into the database. Files are the only door for records.

Each row keeps a digest of the files that it was loaded from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from django.db import transaction
from django.utils.translation import gettext as _

from kb.findings import standings
from kb.models import Record, Repro
from kb.progress import Tell
from kb.publishing import explained
from kb.publishing.rows import apply, repro_columns
from kb.records import rendering
from kb.records.facts import FACTS_FILE
from kb.records.files import (
    Problem,
    RecordError,
    RecordFile,
    ReproFacts,
    in_folder,
    read_all,
    repro_problems,
)
from kb.records.laws import read_laws
from kb.records.symptoms import read_symptoms
from kb.search.index import writer


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


@dataclass(frozen=True)
class Plan:
    """One record's files with what a load is to do with them."""

    file: RecordFile
    repros: Mapping[str, ReproFacts]
    change: Change


@dataclass(frozen=True)
class LoadReport:
    """`without_folder`: ids of records that no folder has; they stay as they are."""

    records: list[Plan]
    without_folder: list[str]


# --- loading ------------------------------------------------------------------------
def load_records(
    root: Path,
    *,
    inspect: Inspect,
    on_new_repros: Callable[[Record], None] | None = None,
    tell: Tell | None = None,
) -> LoadReport:
    """Load every folder below `root`, symptoms and laws beside it, or nothing.

    Nothing is written while any folder has a problem. Then each record is a
    transaction of its own: whoever is killed loses the record at hand, and the next
    call goes on from there. Rows without a folder stay. `on_new_repros` gets each
    record whose repros changed, in the transaction; `tell` hears how many are done.
    Raises RecordError with every problem of every folder.
    """
    other_ids = set(Record.objects.values_list("id", flat=True))
    files = read_all(root, other_ids)
    repros = inspect_all(files, inspect)
    symptom_files = read_symptoms(root, known_names(files))
    law_files = read_laws(root)
    problems = list(taken_problems(files))
    if problems:
        raise RecordError(problems)
    rows = rows_by_id()
    plans = [
        Plan(file, repros[file.id], decide(file, rows.get(file.id))) for file in files
    ]
    without_folder = sorted(rows.keys() - {file.id for file in files})
    for plan in told(plans, tell):
        html = new_html(plan, rows.get(plan.file.id))
        with transaction.atomic():
            row = rows_by_id(plan.file.id).get(plan.file.id)
            carry_out(plan, row, html, on_new_repros)
    with transaction.atomic():
        if symptom_files is not None:
            explained.store_symptoms(symptom_files)
        if law_files is not None:
            explained.store_laws(law_files)
        writer.bring_up_to_date()
        standings.bring_up_to_date()
    return LoadReport(plans, without_folder)


def known_names(files: list[RecordFile]) -> set[str]:
    """Slugs and aliases, by which symptoms name their causes."""
    rows = Record.objects.values_list("slug", "aliases")
    stored = {name for slug, aliases in rows for name in (slug, *aliases)}
    return stored | {name for f in files for name in (f.slug, *f.facts["aliases"])}


def told(plans: list[Plan], tell: Tell | None) -> Iterator[Plan]:
    """What is there already first; then what is not, each announced before its turn."""
    pending = [plan for plan in plans if plan.change != Change.UNCHANGED]
    yield from (plan for plan in plans if plan.change == Change.UNCHANGED)
    for number, plan in enumerate(pending, start=len(plans) - len(pending)):
        if tell:
            tell(number, len(plans), "")
        yield plan


def rows_by_id(*ids: str) -> dict[str, Record]:
    """The rows of these records, or of all."""
    rows = Record.objects.prefetch_related("claims", "repros")
    return {row.id: row for row in (rows.filter(pk__in=ids) if ids else rows)}


def inspect_all(
    files: list[RecordFile], inspect: Inspect
) -> dict[str, dict[str, ReproFacts]]:
    """Facts of every repro by record and name. Raises RecordError with all problems."""
    facts: dict[str, dict[str, ReproFacts]] = {}
    problems: list[Problem] = []
    for file in files:
        facts[file.id], refused = inspected(file, inspect)
        found = refused or repro_problems(file, facts[file.id])
        problems += in_folder(file.slug, found)
    if problems:
        raise RecordError(problems)
    return facts


def inspected(
    file: RecordFile, inspect: Inspect
) -> tuple[dict[str, ReproFacts], list[Problem]]:
    """What the repros say of themselves, and where they break the contract."""
    facts: dict[str, ReproFacts] = {}
    problems: list[Problem] = []
    for name, source in file.repros.items():
        try:
            facts[name] = inspect(source)
        except ReproRefused as error:
            problems += [Problem(f"{name}.py", "", text) for text in error.errors]
    return facts, problems


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


def decide(file: RecordFile, row: Record | None) -> Change:
    if row is None:
        return Change.CREATED
    same = file.files_digest == row.files_digest
    return Change.UNCHANGED if same else Change.UPDATED


def new_html(plan: Plan, row: Record | None) -> rendering.Html | None:
    """HTML to store; None where what is stored is current."""
    is_current = row is not None and row.html_version == rendering.VERSION
    if plan.change == Change.UNCHANGED and is_current:
        return None
    return rendering.sections_html(plan.file)


def carry_out(
    plan: Plan,
    row: Record | None,
    html: rendering.Html | None,
    on_new_repros: Callable[[Record], None] | None,
) -> None:
    before = {repro.name: repro.digest for repro in row.repros.all()} if row else {}
    record = row or Record(id=plan.file.id)
    if plan.change != Change.UNCHANGED:
        apply(plan.file, plan.repros, record, html or {})
    else:
        refresh(plan, record, html)
    rows = Repro.objects.filter(record=record)
    changed = before != {repro.name: repro.digest for repro in rows}
    if changed and on_new_repros:
        on_new_repros(record)


def refresh(plan: Plan, record: Record, html: rendering.Html | None) -> None:
    """Update headers and HTML of unchanged content, whose date stays."""
    for name, facts in plan.repros.items():
        columns = repro_columns(plan.file.repros[name], facts)
        record.repros.filter(name=name).update(**columns)
    if html is not None:
        rows = Record.objects.filter(pk=record.pk)
        rows.update(html=html, html_version=rendering.VERSION)
