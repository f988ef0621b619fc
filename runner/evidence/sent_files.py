"""Files that somebody sent: one object, or the results of a doctor or a kit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.evidence.exchange import receive_evidence
from runner.evidence.folders import EvidenceReport, bytes_of
from runner.evidence.store import EvidenceRefused, parsed

DOCTOR = "doesitnan.doctor/1"
MAX_BYTES = 64 * 1024 * 1024
# A kit has one result of each repro at most.
MOST_BODIES = 2000


def receive_file(path: Path, origin: str, report: EvidenceReport) -> None:
    """Receive a file that the single file, `run_repro --json` or the doctor wrote."""
    with report.refusing(str(path)):
        for at, data in enumerate(bodies_in(path), start=1):
            name = f"{path} ({at})" if at > 1 else str(path)
            with report.refusing(name):
                row = receive_evidence(data, origin)
                (report.added if row.created else report.known).append(name)


def bodies_in(path: Path) -> list[bytes]:
    """The evidence objects in a file: one, or those of a doctor's results.

    Raises EvidenceRefused.
    """
    data = bytes_of(path, MAX_BYTES)
    whole = object_of(data)
    if whole.get("schema") != DOCTOR:
        return [data]
    found = whole.get("results")
    found = found if isinstance(found, list) else []
    rows = [row for row in found if isinstance(row, dict)]
    bodies = [row["evidence"] for row in rows if row.get("evidence")]
    if len(bodies) > MOST_BODIES:
        raise EvidenceRefused(f"It has more than {MOST_BODIES} results.")
    return [json.dumps(body).encode() for body in bodies]


def object_of(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; {} where there is none."""
    try:
        return parsed(data)
    except EvidenceRefused:
        return {}
