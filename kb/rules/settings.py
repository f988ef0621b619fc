"""What a project sets in its pyproject.toml, under [tool.doesitnan.lint]."""

from __future__ import annotations

import ast
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional

from kb.rules.findings import SEVERITIES

TABLE = "tool.doesitnan.lint"
# A note asks the reader to know the data; who wants notes asks for them.
USUAL = "warning"
LISTS = ("select", "ignore", "exclude")
RECORD = re.compile(r"NAN-\d{4}")
# Before Python 3.11 there is no reader of TOML: of this one table lines are enough.
HEADER = re.compile(r"\s*\[+\s*([\w.\"' -]+?)\s*\]+\s*(?:#.*)?$")
ENTRY = re.compile(r"\s*(\w+)\s*=\s*(.*)$")


class WrongUse(ValueError):
    """Settings or arguments that cannot be meant."""


class Settings(NamedTuple):
    """`select`: only these records, all where it is empty; `exclude`: paths; of a
    `severity` that nobody names, notes are left out that no record is selected for."""

    select: List[str]
    ignore: List[str]
    exclude: List[str]
    severity: str

    def wants(self, record: str, severity: str) -> bool:
        chosen = not self.select or record in self.select
        least = self.severity or ("note" if self.select else USUAL)
        worth = SEVERITIES.index(severity) <= SEVERITIES.index(least)
        return chosen and worth and record not in self.ignore


def read_settings(path: Optional[str], start: str) -> Settings:
    """Of a file, or of the nearest pyproject.toml above. Raises WrongUse."""
    found = path or nearest(start)
    if not found:
        return Settings([], [], [], "")
    try:
        with open(found, encoding="utf-8") as file:
            values = table_of(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse("%s: %s" % (found, error)) from None
    except ValueError as error:
        raise WrongUse("%s: [%s]: %s" % (found, TABLE, error)) from None
    return settings_of(values, found)


def nearest(start: str) -> str:
    folder = os.path.abspath(start)
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def settings_of(values: Dict[str, Any], path: str) -> Settings:
    unknown = sorted(set(values) - {*LISTS, "severity"})
    if unknown:
        known = ", ".join([*LISTS, "severity"])
        text = "%s: [%s]: unknown key %s; known are %s"
        raise WrongUse(text % (path, TABLE, ", ".join(unknown), known))
    for name in LISTS:
        entries = values.get(name, [])
        whole = isinstance(entries, list)
        if not whole or not all(isinstance(entry, str) for entry in entries):
            raise WrongUse("%s: %s must be a list of strings" % (path, name))
    severity = values.get("severity", "")
    if severity not in ("", *SEVERITIES):
        known = ", ".join(SEVERITIES)
        raise WrongUse("%s: severity must be one of %s" % (path, known))
    for name in ("select", "ignore"):
        check_records(values.get(name, []))
    lists = [list(values.get(name, [])) for name in LISTS]
    return Settings(lists[0], lists[1], lists[2], severity)


def check_records(names: List[str]) -> None:
    for name in names:
        if not RECORD.fullmatch(name):
            raise WrongUse("%r is no record; they look like NAN-0015" % name)


def table_of(text: str) -> Dict[str, Any]:
    """The one table of a pyproject.toml. Raises ValueError."""
    try:
        import tomllib  # Python 3.11
    except ImportError:
        return table_by_lines(text)
    table: Any = tomllib.loads(text)
    for name in TABLE.split("."):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ValueError("is no table")
    return dict(table)


def table_by_lines(text: str) -> Dict[str, Any]:
    """The same without a reader of TOML: strings and lists of them."""
    values: Dict[str, Any] = {}
    inside, open_key, open_text = False, "", ""
    for line in text.splitlines():
        header = HEADER.match(line)
        if header and not open_key:
            inside = header.group(1) == TABLE
            continue
        entry = ENTRY.match(line)
        if inside and (open_key or entry):
            if not open_key and entry:
                open_key, open_text = entry.group(1), ""
                line = entry.group(2)
            open_text += line + "\n"
            if open_text.count("[") <= open_text.count("]"):
                values[open_key] = literal_of(open_key, open_text)
                open_key = ""
    return values


def literal_of(key: str, text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError):
        raise ValueError("%s is no string or list of strings" % key) from None
