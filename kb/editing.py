"""Records edited on the site: the same checks and rendering as for files."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction

from kb import rendering
from kb.articles import unix_lines
from kb.choices import LANGS, SECTIONS
from kb.models import Record
from kb.records import (
    FACTS_FILE,
    Problem,
    RecordError,
    digest_of,
    repro_problems,
    validate,
    write_record,
)
from kb.rows import content_digest, record_to_file, stored_facts


def prepare(record: Record) -> None:
    """Check an edited record and render its HTML. Raises RecordError, saves nothing."""
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


def neighbour_problems(record: Record) -> Iterator[Problem]:
    """Aliases that belong to another record, related records that do not exist."""
    others = Record.objects.exclude(pk=record.pk)
    known = set(others.values_list("id", flat=True))
    aliases = {alias: row.id for row in others for alias in row.aliases}
    for alias in record.aliases:
        if alias in aliases:
            yield Problem(FACTS_FILE, "aliases", f"{alias} belongs to {aliases[alias]}")
    for other in record.related:
        if other not in known:
            yield Problem(FACTS_FILE, "related", f"there is no other record {other}")


def save_edited(record: Record) -> bool:
    """Check, render and save as a new revision; False where nothing changed.

    Raises RecordError.
    """
    prepare(record)
    with transaction.atomic():
        stored = Record.objects.filter(pk=record.pk).first()
        digest = digest_of(write_record(record_to_file(record)))
        if stored is not None and content_digest(stored) == digest:
            return False
        record.revision = stored.revision + 1 if stored else 1
        record.save()
    return True
