"""Sweeps as files: one object with all cells under its digest, judged again on loading.

Those that come with a record stand in `fixtures/issues/<slug>/sweeps/*.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import transaction

from kb.choices import OUR_ORIGINS, SHIPPED
from kb.models import Record, Repro
from runner import harness
from runner.evidence.folders import EvidenceReport, read_file
from runner.evidence.store import EvidenceRefused, holds_nul, known_build
from runner.models import Run, Sweep
from runner.sweeps import axes as sweep_axes

SCHEMA = "doesitnan.sweep/1"


def body_of(sweep: Sweep) -> dict[str, Any]:
    """The object of a sweep with all of its cells."""
    return sealed(
        sweep.same,
        record=sweep.record_id,
        axes=sweep.ordered_axes,
        cells=sweep.cells,
        started_at=sweep.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def sealed(same: Mapping[str, Any], **rest: Any) -> dict[str, Any]:
    axes = [{"name": name, **axis} for name, axis in rest.pop("axes").items()]
    return harness.sealed({"schema": SCHEMA, **same, **rest, "axes": axes})


def is_sweep(path: Path) -> bool:
    """Whether a file says that it is one."""
    try:
        return bool(read_file(path).get("schema") == SCHEMA)
    except EvidenceRefused:
        return False


# --- from files ----------------------------------------
def load_sweeps(root: Path, report: EvidenceReport) -> None:
    """Add every `<root>/<slug>/sweeps/*.json`, those after a refused file too."""
    stored = set(Sweep.objects.exclude(digest="").values_list("digest", flat=True))
    for path in sorted(root.glob("*/sweeps/*.json")):
        name = str(path.relative_to(root))
        try:
            body = read_file(path)
            slug = path.parent.parent.name
            if body.get("digest") in stored:
                report.known.append(name)
                continue
            record = Record.objects.filter(slug=slug).first()
            if record is None or record.id != body.get("record"):
                raise EvidenceRefused(f"It is about {body.get('record')}, not {slug}.")
            add(body, SHIPPED)
        except EvidenceRefused as error:
            report.refused.append((name, str(error)))
        else:
            report.added.append(name)


def receive(path: Path, origin: str, report: EvidenceReport) -> None:
    """Add one file that somebody sent."""
    try:
        _row, is_new = add(read_file(path), origin)
    except EvidenceRefused as error:
        report.refused.append((path.name, str(error)))
    else:
        (report.added if is_new else report.known).append(path.name)


def add(body: dict[str, Any], origin: str) -> tuple[Sweep, bool]:
    """Store a sweep and say whether it is new. Raises EvidenceRefused."""
    repro = verify(body)
    names = [axis["name"] for axis in body["axes"]]
    same = {key: body[key] for key in ("repro", "build", "device", "harness")}
    with transaction.atomic():
        build = known_build(body["build"], is_sent=origin not in OUR_ORIGINS)
        return Sweep.objects.get_or_create(
            digest=body["digest"],
            defaults={
                "record": repro.record,
                "repro_name": repro.name,
                "repro_digest": repro.digest,
                "build": build,
                "device": repro.device,
                "axes": axes_of(body),
                "names": names,
                "trials": max((cell["trials"] for cell in body["cells"]), default=1),
                "protocol": body["harness"],
                "origin": origin,
                "state": Run.State.FINISHED,
                "cells": body["cells"],
                "same": same,
                "started_at": datetime.fromisoformat(body["started_at"]),
                "finished_at": datetime.fromisoformat(body["started_at"]),
            },
        )


def axes_of(body: Mapping[str, Any]) -> dict[str, sweep_axes.Axis]:
    return {
        axis["name"]: {key: axis[key] for key in axis if key != "name"}
        for axis in harness.decode(body["axes"])
    }


def verify(body: dict[str, Any]) -> Repro:
    """Check form, digest, values and every verdict. Raises EvidenceRefused."""
    try:
        if body["schema"] != SCHEMA or body["digest"] != harness.evidence_digest(body):
            raise EvidenceRefused("The content does not match its digest.", "digest")
        if datetime.fromisoformat(body["started_at"]).tzinfo is None:
            raise EvidenceRefused("started_at names no time zone.")
        if harness.encode(body) != body or holds_nul(body):
            raise EvidenceRefused("It holds a number or a text no database keeps.")
        repro = repro_of(body)
        verify_cells(body, repro.source)
        body["build"]["slug"], body["build"]["raw"], body["device"]["class"]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, EvidenceRefused):
            raise
        raise EvidenceRefused(f"It is no sweep: {error!r}.") from error
    except (sweep_axes.TooMany, sweep_axes.NoAxes) as error:
        raise EvidenceRefused(str(error)) from error
    return repro


def repro_of(body: Mapping[str, Any]) -> Repro:
    """The repro of these very bytes: another one may read its values otherwise."""
    rows = Repro.objects.filter(
        record=body["record"],
        name=body["repro"]["name"],
        digest=body["repro"]["digest"],
    )
    repro = rows.select_related("record").first()
    if repro is None or body["harness"] != harness.PROTOCOL:
        raise EvidenceRefused("The repro is not the one of that record here.", "stale")
    return repro


def verify_cells(body: Mapping[str, Any], source: str) -> None:
    """Each cell is the next of the axes, and its checks give its verdict."""
    header, checks = harness.read_repro(source)
    axes = sweep_axes.checked(header, axes_of(body))
    names = harness.cell_checks(checks)
    done: dict[tuple[Any, ...], str] = {}
    for cell in body["cells"]:
        at = harness.decode(cell["at"])
        wanted = sweep_axes.next_cell(axes, done)
        if at != wanted:
            raise EvidenceRefused(f"A cell is {at}, and the next of its axes {wanted}.")
        if harness.judged_cell(header, names, at, cell["checks"]) != cell:
            raise EvidenceRefused(f"The checks of {at} say otherwise.", "verdict")
        done[sweep_axes.key_of(axes, at)] = cell["verdict"]
    if sweep_axes.next_cell(axes, done) is not None:
        raise EvidenceRefused("It has not all of its cells.")


# --- together ----------------------------------------
def merged(sweeps: Iterable[Sweep]) -> list[dict[str, Any]]:
    """The cells of sweeps of the same parameters, each once: what is newest of it.

    What somebody sent gives way to what ran here or came with the record.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    ordered = sorted(sweeps, key=lambda row: (not row.is_sent, row.started_at))
    for sweep in ordered:
        names = sorted(sweep.names)
        for cell in sweep.cells:
            found[tuple(cell["at"][name] for name in names)] = cell
    return list(found.values())
