"""Files that somebody sent: one object, or the results of a doctor or a kit.

Signatures stand by digest in results; that of one object in FILE.sig beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.evidence.exchange import receive_evidence
from runner.evidence.folders import EvidenceReport
from runner.evidence.signing.sshsig import MAX_CHARS
from runner.evidence.store import EvidenceRefused

DOCTOR = "doesitnan.doctor/1"
MAX_BYTES = 64 * 1024 * 1024


def receive_file(path: Path, origin: str, report: EvidenceReport) -> None:
    """Receive a file that the single file, `run_repro --json` or the doctor wrote."""
    if path.stat().st_size > MAX_BYTES:
        report.refused.append((str(path), "It is larger than any such file."))
        return
    signatures = signatures_in(path)
    for at, data in enumerate(bodies_in(path), start=1):
        name = f"{path} ({at})" if at > 1 else str(path)
        try:
            signature = signatures.get(digest_of(data), "")
            row = receive_evidence(data, origin, signature=signature)
        except EvidenceRefused as error:
            report.refused.append((name, str(error)))
        else:
            (report.added if row.created else report.known).append(name)


def bodies_in(path: Path) -> list[bytes]:
    """The evidence objects in a file: one, or those of a doctor's results."""
    data = path.read_bytes()
    whole = object_of(data)
    if whole.get("schema") != DOCTOR:
        return [data]
    rows = [row for row in whole.get("results") or [] if isinstance(row, dict)]
    bodies = [row["evidence"] for row in rows if row.get("evidence")]
    return [json.dumps(body).encode() for body in bodies]


def signatures_in(path: Path) -> Mapping[str, str]:
    """The signatures of evidence and sweeps in a file, by the digest that they sign."""
    whole = object_of(path.read_bytes())
    if whole.get("schema") == DOCTOR:
        found = whole.get("signatures")
        found = found if isinstance(found, dict) else {}
        return {digest: str(text) for digest, text in found.items()}
    beside = path.with_name(f"{path.name}.sig")
    if not beside.is_file():
        return {}
    with beside.open(encoding="utf-8", errors="replace") as file:
        return {str(whole.get("digest")): file.read(MAX_CHARS + 1)}


def digest_of(data: bytes) -> str:
    """What it says that its digest is."""
    return str(object_of(data).get("digest"))


def object_of(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; {} where there is none."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return whole if isinstance(whole, dict) else {}
