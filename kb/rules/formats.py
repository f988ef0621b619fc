"""Findings as text, JSON or SARIF."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, NamedTuple, Sequence, Union

from kb.rules import sarif
from kb.rules.findings import Edit, Finding

SCHEMA = "doesitnan.lint/1"
Json = Dict[str, Any]


class Checked(NamedTuple):
    """One file that was read. `problem`: why it could not be."""

    path: str
    findings: Sequence[Finding]
    problem: str = ""
    lines: Sequence[str] = ()


def message(finding: Finding, lang: str) -> str:
    return str(finding.rule["message"][lang])


def line_of(file: Checked, one: Finding) -> str:
    """The text of the line at which a finding begins."""
    return file.lines[one.line - 1].strip() if one.line <= len(file.lines) else ""


def as_text(files: Sequence[Checked], lang: str) -> str:
    """Of each finding a line that editors read, and below it that of the code."""
    lines = [
        "%s:%d:%d: %s %s %s\n    %s"
        % (
            *(file.path, one.line, one.column + 1, one.rule["severity"], one.record),
            *(message(one, lang), line_of(file, one)),
        )
        for file in files
        for one in file.findings
    ]
    return "".join(line + "\n" for line in lines)


def as_json(files: Sequence[Checked], lang: str) -> str:
    whole = {
        "schema": SCHEMA,
        "files": len(files),
        "findings": [
            {
                "path": file.path,
                "record": one.record,
                "rule": one.rule["name"],
                "severity": one.rule["severity"],
                "message": message(one, lang),
                **place_of(one),
                "page": one.rule.get("page", ""),
                "fix": one.edit and {**place_of(one.edit), "text": one.edit.text},
            }
            for file in files
            for one in file.findings
        ],
        "unreadable": [
            {"path": file.path, "problem": file.problem}
            for file in files
            if file.problem
        ],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def place_of(one: Union[Finding, Edit]) -> Json:
    """Where it stands, columns from 1."""
    return {
        "line": one.line,
        "column": one.column + 1,
        "end_line": one.end_line,
        "end_column": one.end_column + 1,
    }


def as_sarif(files: Sequence[Checked], lang: str) -> str:
    rules: Dict[str, Json] = {}
    results = []
    for file in files:
        for one in file.findings:
            text = (one.rule.get("title") or one.rule["message"])[lang]
            page = one.rule.get("page", "")
            rules.setdefault(one.record, sarif.rule(one.record, text, page))
            results.append(sarif_result(file, one, lang))
    told = [sarif.not_read(one.path, one.problem) for one in files if one.problem]
    whole = sarif.log([rules[name] for name in sorted(rules)], results, not told, told)
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def sarif_result(file: Checked, one: Finding, lang: str) -> Json:
    more: Json = {"properties": {"rule": one.rule["name"]}}
    if one.edit is not None:
        more["fixes"] = [sarif_fix(file.path, one.edit)]
    return sarif.result(
        one.record,
        str(one.rule["severity"]),
        message(one, lang),
        sarif.place_of(file.path, region_of(one)),
        # The line's text and not its number: code above it may grow.
        [one.record, one.rule["name"], sarif.uri_of(file.path), line_of(file, one)],
        more,
    )


def region_of(one: Union[Finding, Edit]) -> Json:
    """The same in the words of SARIF."""
    names = ("startLine", "startColumn", "endLine", "endColumn")
    return dict(zip(names, place_of(one).values()))


def sarif_fix(path: str, edit: Edit) -> Json:
    new = {"deletedRegion": region_of(edit), "insertedContent": {"text": edit.text}}
    return {"artifactChanges": [{**sarif.file_at(path), "replacements": [new]}]}


WRITERS: Dict[str, Callable[[Sequence[Checked], str], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
}
