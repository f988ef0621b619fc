"""What an examination found as SARIF 2.1.0, as code scanning reads it."""

import hashlib
import importlib
import io
import re
from typing import Any, Dict, List

harness: Any = importlib.import_module("harness")

VERSION = "2.1.0"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
TORCH = re.compile(r"\s*['\"]?torch\b(?![-_.]\w)")
Json = Dict[str, Any]


def dumps(whole: Json, requirements: str, lang: str) -> str:
    """The document; its results point at the line of `requirements` about torch."""
    found = [row for row in whole["results"] if row["verdict"] == "bug_present"]
    records = {row["record"]: row for row in found}
    driver = {
        "name": "doesitnan",
        "semanticVersion": "1.0.0",
        "rules": [rule(records[name], lang) for name in sorted(records)],
    }
    line = torch_line(requirements)
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": whole["complete"]}],
        "results": [result(row, whole["build"], requirements, line) for row in found],
    }
    return str(harness.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}))


def rule(row: Json, lang: str) -> Json:
    found = {
        "id": row["record"],
        "shortDescription": {"text": row["title"][lang]},
        "properties": {"upstream": row["upstream"]},
    }
    if row["page"]:
        found["helpUri"] = row["page"]
    return found


def result(row: Json, build: Json, requirements: str, line: int) -> Json:
    evidence = row["evidence"]
    place = {
        "artifactLocation": {"uri": requirements.replace("\\", "/")},
        "region": {"startLine": line},
    }
    trials = (evidence["hits"], evidence["trials"], build["raw"])
    return {
        "ruleId": row["record"],
        # A model, or what upstream wants so, is no fault of this environment.
        "level": "error" if row["counts"] else "note",
        "message": {"text": "%s of %s trials on torch %s" % trials},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"doesitnan/v1": fingerprint(row, build)},
        "properties": {"repro": row["repro"], "evidence": evidence["digest"]},
    }


def fingerprint(row: Json, build: Json) -> str:
    """The same for the same repro on the same build, whatever its run took."""
    parts: List[str] = [row["record"], row["repro"], build["raw"]]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()[:32]


def torch_line(path: str) -> int:
    """The line that names torch; 1 where none does or the file cannot be read."""
    try:
        with io.open(path, encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                if TORCH.match(text):
                    return number
    except OSError:
        pass
    return 1
