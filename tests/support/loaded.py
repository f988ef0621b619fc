"""Rows that many tests begin with: loaded once in a run of tests, then copied.

To read, check and render all record folders takes ten seconds of processor time; the
tests of loading do it each time, those of what is done with records need not.
"""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.color import no_style
from django.db import connection, transaction

from kb.models import Record, SearchState, Symptom, TallyState
from kb.publishing.loading import load_records
from kb.search.index import writer
from runner.evidence.folders import EvidenceReport, load_evidence
from runner.evidence.repros import inspect
from runner.sweeps.exchange import load_sweeps

# Shared by the processes of a run, which sets it; None: everything is loaded anew.
folder: Path | None = None
# Each has one row, whatever else there is.
STATES = (SearchState, TallyState)

Rows = dict[str, list[tuple[Any, ...]]]


def shipped() -> None:
    """Every shipped record, as `load_records` leaves them in an empty database."""
    copied("shipped", lambda: load_records(settings.ISSUES_DIR, inspect=inspect))


def shipped_with_evidence() -> None:
    """Also the evidence that comes with them."""

    def load() -> None:
        shipped()
        load_evidence(settings.ISSUES_DIR)

    copied("evidence", load)


def shipped_with_sweeps() -> None:
    """The records and the sweeps that come with them."""

    def load() -> None:
        shipped()
        load_sweeps(settings.ISSUES_DIR, EvidenceReport())

    copied("sweeps", load)


def first_records() -> None:
    """The first seven: a rank must not change with each new one."""

    def load() -> None:
        shipped()
        Record.objects.filter(id__gt="NAN-0007").delete()
        Symptom.objects.all().delete()  # nor what may be behind one

    copied("first", load)


def copied(name: str, load: Callable[[], object]) -> None:
    """What `load` makes of an empty database; where there are rows it is called."""
    if folder is None or not is_empty():
        load()
        return

    def made() -> Rows:
        load()
        return read()

    found = once(name, made)
    if is_empty():  # another process has loaded them
        write(found)


def once(name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, made by one process of a run for all of them."""
    if folder is None:
        return make()
    path = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        # Whoever comes second waits: two would take as long.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_bytes(pickle.dumps(made := make()))
            return made
    return pickle.loads(path.read_bytes())


def models() -> list[Any]:
    found = [apps.get_app_config(app).get_models() for app in ("kb", "runner")]
    return [model for several in found for model in several]


def is_empty() -> bool:
    return not any(
        model._base_manager.exists() for model in models() if model not in STATES
    )


def columns(model: Any) -> str:
    return ", ".join(f'"{field.column}"' for field in model._meta.concrete_fields)


def read() -> Rows:
    found = {}
    with connection.cursor() as cursor:
        for model in models():
            table = model._meta.db_table
            cursor.execute(f'SELECT {columns(model)} FROM "{table}"')
            if rows := cursor.fetchall():
                found[table] = [tuple(map(portable, row)) for row in rows]
    return found


def portable(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def write(rows: Rows) -> None:
    """The rows with their numbers, and sequences that fit."""
    with transaction.atomic(), connection.cursor() as cursor:
        for state in STATES:
            state.objects.all().delete()
        for model in models():
            if found := rows.get(model._meta.db_table):
                places = ", ".join(["%s"] * len(found[0]))
                cursor.executemany(
                    f'INSERT INTO "{model._meta.db_table}" ({columns(model)}) '
                    f"VALUES ({places})",
                    found,
                )
        for state in STATES:  # what was read of an earlier copy is not of this one
            state.objects.update(generation=writer.new_generation())
        for statement in connection.ops.sequence_reset_sql(no_style(), models()):
            cursor.execute(statement)
