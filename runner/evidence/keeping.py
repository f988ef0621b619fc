"""Evidence of a kit as files of the records: `evidence/<repro>-<build>-<machine>.json`.

The machine's name begins with its device if the repro is for another: "mps-m3".

For whoever stands for that machine: what is committed with the records is the
repository's own. Each object is written as it was made, on one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kb.models import Record
from portable import harness
from runner.evidence import store
from runner.evidence.exchange import current_repro, validate
from runner.evidence.folders import EvidenceReport
from runner.evidence.sent_files import bodies_in


def keep_evidence(path: Path, root: Path, machine: str, report: EvidenceReport) -> None:
    """Write what `path` holds below `root`; what has no verdict is left out."""
    with report.refusing(str(path)):
        for at, data in enumerate(bodies_in(path), start=1):
            with report.refusing(f"{path} ({at})"):
                body = validate(data)
                if body["is_affected"] is not None:
                    made = f"{body['repro']['name']}-{body['build']['slug']}"
                    device = store.device_class(body)
                    own = device == current_repro(body).device
                    where = machine if own else f"{device}-{machine}"
                    keep(root, body, "evidence", f"{made}-{where}.json", report)


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
