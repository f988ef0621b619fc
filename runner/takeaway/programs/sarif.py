"""What an examination found as SARIF 2.1.0, as code scanning reads it."""

import importlib
import io
import re
from typing import Any, Dict

from kb.rules import sarif

harness: Any = importlib.import_module("portable.harness")

TORCH = re.compile(r"[^#]*(?:^|[\s'\"\[])torch\b(?![-_.]\w)")
Json = Dict[str, Any]


def dumps(whole: Json, requirements: str, lang: str) -> str:
    """The document; its results point at the line of `requirements` about torch."""
    found = [row for row in whole["results"] if row["verdict"] == "bug_present"]
    records = {row["record"]: row for row in found}
    line = torch_line(requirements)
    document = sarif.log(
        [rule(records[name], lang) for name in sorted(records)],
        [result(row, whole["build"], requirements, line) for row in found],
        whole["complete"],
    )
    return str(harness.dumps(document))


def rule(row: Json, lang: str) -> Json:
    about = {"upstream": row["upstream"]}
    return sarif.rule(row["record"], row["title"][lang], row["page"], about)


def result(row: Json, build: Json, requirements: str, line: int) -> Json:
    evidence = row["evidence"]
    trials = (evidence["hits"], evidence["trials"], build["raw"])
    said = "%s of %s trials on torch %s" % trials
    return sarif.result(
        row["record"],
        # A model, or what upstream wants so, is no fault of this environment.
        "error" if row["counts"] else "note",
        said,
        sarif.place_of(requirements, {"startLine": line}),
        # The same for the same repro on the same build, whatever its run took.
        [row["record"], row["repro"], build["raw"]],
        {"properties": {"repro": row["repro"], "evidence": evidence["digest"]}},
    )


def torch_line(path: str) -> int:
    """The line that names torch; 1 where none does."""
    with io.open(path, encoding="utf-8", errors="replace") as file:
        return next((n for n, text in enumerate(file, 1) if TORCH.match(text)), 1)
