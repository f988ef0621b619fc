"""Findings that a project has already: known by file, record, rule and the text of
the line, not by its number. Of equal ones as many are left out as there were."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any, Counter as Counts, Dict, List, Tuple

from kb.rules.findings import Finding
from kb.rules.formats import Checked, line_of
from kb.rules.settings import WrongUse

SCHEMA = "doesitnan.lint.baseline/1"
Json = Dict[str, Any]
Known = Tuple[str, str, str, str]
KEYS = ("path", "record", "rule", "text")


def known(file: Checked, one: Finding) -> Known:
    path = os.path.normpath(file.path).replace(os.sep, "/")
    return path, one.record, str(one.rule["name"]), line_of(file, one)


def written(files: List[Checked]) -> str:
    """The baseline of all these findings, in an order that makes small diffs."""
    found = sorted(known(file, one) for file in files for one in file.findings)
    entries = [dict(zip(KEYS, entry)) for entry in found]
    whole = {"schema": SCHEMA, "findings": entries}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def read(path: str) -> Counts[Known]:
    """Raises WrongUse."""
    try:
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        if whole["schema"] != SCHEMA:
            raise ValueError("its schema is not " + SCHEMA)
        rows: List[Json] = whole["findings"]
        return Counter(tuple(row[key] for key in KEYS) for row in rows)
    except OSError as error:
        raise WrongUse("%s: %s" % (path, error.strerror)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise WrongUse("%s: no baseline: %r" % (path, error)) from None


def without(files: List[Checked], old: Counts[Known]) -> List[Checked]:
    """The files with the findings alone that are new."""
    left = Counter(old)

    def is_new(file: Checked, one: Finding) -> bool:
        left[known(file, one)] -= 1
        return left[known(file, one)] < 0

    return [
        file._replace(findings=[one for one in file.findings if is_new(file, one)])
        for file in files
    ]
