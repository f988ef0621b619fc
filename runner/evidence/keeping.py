"""Evidence of a kit as files of the records: `evidence/<repro>-<build>-<machine>.json`.

For whoever stands for that machine: what is committed with the records is the
repository's own. Each object is written as it was made, on one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kb.models import Record
from portable import harness
from runner.evidence.exchange import validate
from runner.evidence.folders import EvidenceReport
from runner.evidence.sent_files import bodies_in
from runner.evidence.store import EvidenceRefused


def keep_evidence(path: Path, root: Path, machine: str, report: EvidenceReport) -> None:
    """Write what `path` holds below `root`; what has no verdict is left out."""
    try:
        bodies = bodies_in(path)
    except EvidenceRefused as error:
        report.refused.append((str(path), str(error)))
        return
    for at, data in enumerate(bodies, start=1):
        try:
            body = validate(data)
        except EvidenceRefused as error:
            report.refused.append((f"{path} ({at})", str(error)))
            continue
        if body["is_affected"] is None:
            continue
        name = f"{body['repro']['name']}-{body['build']['slug']}-{machine}.json"
        keep(root, body, "evidence", name, report)


def keep(
    root: Path, body: dict[str, Any], kind: str, name: str, report: EvidenceReport
) -> None:
    """Write one object into the folder of its record."""
    slug = Record.objects.values_list("slug", flat=True).get(pk=body["record"])
    folder = root / slug / kind
    folder.mkdir(parents=True, exist_ok=True)
    text = harness.dumps(body) + "\n"
    file = folder / name
    known = file.is_file() and file.read_text("utf-8") == text
    if not known:
        file.write_text(text, "utf-8")
    (report.known if known else report.added).append(str(file.relative_to(root)))
