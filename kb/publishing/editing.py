"""Records edited on the site: the same checks and rendering as for files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from kb.choices import LANGS, SECTIONS, Significance
from kb.languages import OTHER
from kb.models import Record
from kb.publishing import saving
from kb.publishing.revisions import columns
from kb.publishing.rows import (
    BILINGUAL,
    CODE,
    content_digest,
    record_to_file,
    stored_facts,
)
from kb.records import rendering
from kb.records.articles import unix_lines
from kb.records.files import (
    FACTS_FILE,
    Problem,
    RecordError,
    digest_of,
    repro_problems,
    validate,
    write_record,
)

# Of an old revision these do not come back.
STAYS = ("slug", "publication", "withdrawn_because")


def prepare(record: Record) -> None:
    """Check an edited record and render its HTML. Raises RecordError, saves nothing."""
    keep_code(record)
    for lang in LANGS:
        for name in SECTIONS:
            text = unix_lines(record.text(name, lang)).strip()
            setattr(record, f"{name}_{lang}", text)
    file = record_to_file(record)
    problems = validate(file)
    if not problems:
        problems = repro_problems(file, stored_facts(record))
        problems += neighbour_problems(record)
    if problems:
        raise RecordError(problems)
    record.html = rendering.sections_html(file)
    record.html_version = rendering.VERSION


def keep_code(record: Record) -> None:
    """Give rows the code of the repros, which changes with the files only.

    An old revision has the code of its day, and a form has none.
    """
    stored = Record.objects.filter(pk=record.pk).first()
    if stored is None:
        return
    sources = "\n".join(repro.source for repro in stored.repros.all())
    for column, key, prefix in CODE:
        current = {row["name"]: row.get(key) for row in getattr(stored, column)}
        setattr(
            record,
            column,
            [
                {**row, key: current[name]}
                if current.get(name := row.get("name", ""))
                and f"def {prefix}{name}(" in sources
                else row
                for row in getattr(record, column)
            ],
        )


def brought_back(stored: Record, old: Any) -> Record:
    """The stored record with texts and facts of an old revision, not saved.

    What is not of that revision stays: address, whether it is published, claims and
    repros, the digests by which files and site find each other.
    """
    for _field, _lang, column in columns():
        if not column.startswith(STAYS):
            setattr(stored, column, getattr(old, column))
    keep_code(stored)
    return stored


def neighbour_problems(record: Record) -> Iterator[Problem]:
    """Aliases that belong to another record, related records that do not exist."""
    others = Record.objects.exclude(pk=record.pk)
    ids = set(others.values_list("id", flat=True))
    aliases = {alias: row.id for row in others for alias in row.aliases}
    for alias in record.aliases:
        if alias in aliases:
            names = {"alias": alias, "id": aliases[alias]}
            message = _("%(alias)s belongs to %(id)s") % names
            yield Problem(FACTS_FILE, "aliases", message)
    for related in record.related:
        if related not in ids:
            message = _("there is no other record %s") % related
            yield Problem(FACTS_FILE, "related", message)


def save_edited(
    record: Record,
    significance: Significance = Significance.MEDIUM,
    *,
    in_step: bool = False,
) -> bool:
    """Check, render and save as a new revision; False where nothing changed.

    `significance` says what the edit of one language means for the other;
    `in_step` that both say the same now. Raises RecordError.
    """
    prepare(record)
    with transaction.atomic():
        stored = Record.objects.filter(pk=record.pk).first()
        digest = digest_of(write_record(record_to_file(record)))
        if stored is None:
            record.revision = 1
        elif content_digest(stored) != digest or (in_step and stored.outdated):
            follow(record, stored, significance, in_step)
        else:
            return False
        saving.save(record)
    return True


def follow(
    record: Record, stored: Record, significance: Significance, in_step: bool
) -> None:
    """Make an edited record, which may be an old revision, the next of the stored."""
    record.revision = stored.revision + 1
    record.files_digest = stored.files_digest
    record.content_digest = stored.content_digest
    edited = edited_langs(record, stored)
    record.significance = significance if edited else ""
    record.outdated = (
        {}
        if in_step
        else outdated(stored.outdated, edited, significance, record.revision)
    )


def edited_langs(record: Record, stored: Record) -> list[str]:
    """The languages in which the prose of a record differs from the stored one."""
    fields = (*SECTIONS, *BILINGUAL)
    return [
        lang
        for lang in LANGS
        if any(record.text(name, lang) != stored.text(name, lang) for name in fields)
    ]


def outdated(
    before: Mapping[str, Mapping[str, Any]],
    edited: Collection[str],
    significance: Significance,
    revision: int,
) -> dict[str, Any]:
    """`Record.outdated` after an edit that makes `revision`.

    A small edit leaves it as it is. A larger one of both languages, or of the
    outdated one alone, brings them into step; of one language alone, it leaves the
    other behind, from the revision that it followed last.
    """
    if significance == Significance.SMALL or not edited:
        return dict(before)
    if len(edited) == len(LANGS):
        return {}
    (lang,) = edited
    if lang in before:
        return {key: value for key, value in before.items() if key != lang}
    earlier = before.get(OTHER[lang], {})
    worse = Significance.LARGE in (significance, earlier.get("significance"))
    entry = {
        "has": earlier.get("has", revision - 1),
        "wants": revision,
        "significance": (Significance.LARGE if worse else significance).value,
    }
    return {**before, OTHER[lang]: entry}
