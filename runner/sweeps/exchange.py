"""Sweeps as files: one object with all cells under its digest, judged again on loading.

Those that come with a record stand in `fixtures/issues/<slug>/sweeps/*.json`; what
somebody sent is one of them, or the evidence file of a kit with several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.db import transaction

from kb.choices import OUR_ORIGINS, SHIPPED
from kb.models import Record, Repro
from portable import harness
from runner.evidence import executed
from runner.evidence.exchange import check_build, check_time
from runner.evidence.folders import (
    EvidenceReport,
    bytes_of,
    check_folder,
    read_file,
)
from runner.evidence.keeping import keep
from runner.evidence.sent_files import DOCTOR, MAX_BYTES, MOST_BODIES, object_of
from runner.evidence.shape import (
    CHECK,
    MOMENT,
    NESTED,
    check_device,
    check_fields,
    check_observations,
    check_packages,
    check_texts,
)
from runner.evidence.store import (
    EvidenceRefused,
    holds_nul,
    known_build,
    moment_of,
    refusing_faults,
)
from runner.models import Run, Sweep
from runner.sweeps import axes as sweep_axes
from runner.sweeps.cells import SCHEMA, Axis, key_of, next_cell, sealed

NO_SWEEP = "It is no sweep"
CELL_CHECK = {name: CHECK[name] for name in harness.CELL_FIELDS}
KEYS = {
    *("schema", "digest", "record", "repro", "build", "device", "harness"),
    *("axes", "cells", "started_at"),
}


def body_of(sweep: Sweep) -> dict[str, Any]:
    """The object of a sweep with all of its cells."""
    return sealed(
        sweep.same,
        record=sweep.record_id,
        axes=sweep.ordered_axes,
        cells=sweep.cells,
        started_at=sweep.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


# --- from files ----------------------------------------
def load_sweeps(root: Path, report: EvidenceReport) -> None:
    """Add every `<root>/<slug>/sweeps/*.json`, those after a refused file too."""
    stored = set(Sweep.objects.exclude(digest="").values_list("digest", flat=True))
    for path in sorted(root.glob("*/sweeps/*.json")):
        name = str(path.relative_to(root))
        with report.refusing(name):
            body = read_file(path)
            if body.get("digest") in stored:
                report.known.append(name)
                continue
            slug = path.parent.parent.name
            check_folder(body, slug, Record.objects.filter(slug=slug).first())
            add(body, SHIPPED)
            report.added.append(name)


def receive(bodies: Iterable[Any], origin: str, report: EvidenceReport) -> None:
    """Add what `sent_in` found in a file, under the name that it was sent by."""
    for at, body in enumerate(bodies, start=1):
        name = f"sweep {at}"
        try:
            check_sent(body)
            name = f"{body['record']} over {' × '.join(axes_of(body))}"
            if "digest" not in body:
                report.unfinished.append((name, len(body["cells"])))
                continue
            _row, is_new = add(body, origin)
        except EvidenceRefused as error:
            report.refused.append((name, str(error)))
        else:
            (report.added if is_new else report.known).append(name)


def sent_in(path: Path) -> tuple[list[Any], bool]:
    """The sweeps in a file, those that still lack cells too; whether it is just one."""
    try:
        whole = object_of(bytes_of(path, MAX_BYTES))
    except EvidenceRefused:
        return [], False  # as whoever reads the evidence in it says
    if whole.get("schema") == SCHEMA:
        return [whole], True
    found = whole.get("sweeps") if whole.get("schema") == DOCTOR else []
    return found[:MOST_BODIES] if isinstance(found, list) else [], False


def keep_sweeps(path: Path, root: Path, machine: str, report: EvidenceReport) -> None:
    """Write the sweeps of a kit that have all of their cells below `root`."""
    for body in sent_in(path)[0]:
        with report.refusing(str(path)):
            check_sent(body)
            if "digest" not in body:
                continue
            verify(body)
            names = "-".join(axes_of(body))
            build = body["build"]["slug"]
            name = f"{body['repro']['name']}-{names}-{build}-{machine}.json"
            keep(root, body, "sweeps", name, report)


def check_sent(body: Any) -> None:
    """Hold what somebody sent to the shape of evidence. Raises EvidenceRefused."""
    with refusing_faults(NO_SWEEP):
        axes_of(body)
        # A kit names them before it has a cell, and that is no evidence.
        if "digest" not in body:
            len(body["cells"]), str(body["record"])
            return
        if body.keys() != KEYS:
            raise EvidenceRefused("It has not the keys of a sweep.")
        for key in ("repro", "build", "device"):
            check_fields(body[key], NESTED[key], f"{key}.")
        check_fields({"at": body["started_at"]}, {"at": MOMENT}, "started_at.")
        check_packages(body["build"]["packages"])
        check_device(body)
        check_texts({**body, "checks": body["cells"]})
        check_time(body)
        check_build(body["build"])
        for cell in body["cells"]:
            for check in cell["checks"]:
                check_fields(check, CELL_CHECK, f"{cell['at']} ")
                check_observations(check, f"{cell['at']} ")


def add(body: dict[str, Any], origin: str) -> tuple[Sweep, bool]:
    """Store a sweep and say whether it is new. Raises EvidenceRefused.

    What somebody sends is of the repro as it is now; of ours its parts may still hold.
    """
    repro = verify(body)
    if origin not in OUR_ORIGINS and repro.digest != body["repro"]["digest"]:
        raise EvidenceRefused("The repro is not the one of that record here.", "stale")
    names = [axis["name"] for axis in body["axes"]]
    same = {key: body[key] for key in ("repro", "build", "device", "harness")}
    with transaction.atomic():
        build = known_build(body["build"]) if origin in OUR_ORIGINS else None
        return Sweep.objects.get_or_create(
            digest=body["digest"],
            defaults={
                "record": repro.record,
                "repro_name": repro.name,
                "repro_digest": body["repro"]["digest"],
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
                "started_at": moment_of(body),
                "finished_at": moment_of(body),
            },
        )


def axes_of(body: Mapping[str, Any]) -> dict[str, Axis]:
    return {
        axis["name"]: {key: axis[key] for key in axis if key != "name"}
        for axis in harness.decode(body["axes"])
    }


def verify(body: dict[str, Any]) -> Repro:
    """Check form, digest, values and every verdict. Raises EvidenceRefused."""
    with refusing_faults(NO_SWEEP):
        if body["schema"] != SCHEMA or body["digest"] != harness.evidence_digest(body):
            raise EvidenceRefused("The content does not match its digest.", "digest")
        moment_of(body)
        if harness.encode(body) != body or holds_nul(body):
            raise EvidenceRefused("It holds a number or a text no database keeps.")
        repro = repro_of(body)
        verify_cells(body, repro.source)
        body["build"]["slug"], body["build"]["raw"], body["device"]["class"]
    return repro


def repro_of(body: Mapping[str, Any]) -> Repro:
    """The repro that made it: another one may read its values otherwise."""
    rows = Repro.objects.filter(record=body["record"], name=body["repro"]["name"])
    repro = rows.select_related("record").first()
    held = repro is not None and executed.holds(body["repro"], repro)
    if repro is None or not held or body["harness"] != harness.PROTOCOL:
        raise EvidenceRefused("The repro is not the one of that record here.", "stale")
    return repro


def verify_cells(body: Mapping[str, Any], source: str) -> None:
    """Each cell is the next of the axes, and its checks give its verdict."""
    header, checks = harness.read_repro(source)
    try:
        axes = sweep_axes.checked(header, axes_of(body))
    except sweep_axes.BadAxes as error:
        raise EvidenceRefused(str(error)) from error
    names = harness.cell_checks(checks)
    done: dict[tuple[Any, ...], str] = {}
    for cell in body["cells"]:
        at = harness.decode(cell["at"])
        wanted = next_cell(axes, done)
        if at != wanted:
            raise EvidenceRefused(f"A cell is {at}, and the next of its axes {wanted}.")
        if harness.judged_cell(header, names, at, cell["checks"]) != cell:
            raise EvidenceRefused(f"The checks of {at} say otherwise.", "verdict")
        done[key_of(axes, at)] = cell["verdict"]
    if next_cell(axes, done) is not None:
        raise EvidenceRefused("It has not all of its cells.")


# --- together ----------------------------------------
def merged(sweeps: Iterable[Sweep]) -> list[dict[str, Any]]:
    """The cells of sweeps of the same parameters, each once: what is newest of it."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for sweep in sorted(sweeps, key=lambda row: row.started_at or row.created_at):
        names = sorted(sweep.names)
        for cell in sweep.cells:
            found[tuple(cell["at"][name] for name in names)] = cell
    return list(found.values())
