"""The site's data as a package, for others to build on: `doesitnan_data.load()`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC

from kb.models import Record
from kb.syndication.dates import first_and_last
from runner.takeaway.wheel import packed

NAME = "doesitnan_data"
DATA = "doesitnan.json"
METADATA = """\
Metadata-Version: 2.4
Name: doesitnan-data
Version: {version}
Summary: Known training failures of PyTorch, and what each release does
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
{urls}Description-Content-Type: text/markdown

`doesitnan_data.load()` gives a dict: `records` and `matrix` have the shapes of the
site's API (`Record` and `Matrix` in its OpenAPI document), `flips` tells between which
builds a verdict turned.
"""
MODULE = f'''\
"""Known training failures of PyTorch, and what each release does."""

import json
import pkgutil


def load():
    """All of it as a dict: version, site, licence, records, matrix, flips."""
    return json.loads(pkgutil.get_data(__name__, "{DATA}").decode("utf-8"))
'''


def version(records: Iterable[Record]) -> str:
    """Of the data: when its newest text or verdict is of, such as 2026.11.28.71205.

    The last part is the second of that day (UTC).
    """
    moment = max(last for _first, last in first_and_last(records).values())
    moment = moment.astimezone(UTC)
    second = moment.hour * 3600 + moment.minute * 60 + moment.second
    return f"{moment:%Y}.{moment.month}.{moment.day}.{second}"


def wheel(data: str, version: str, site: str) -> bytes:
    """The package; `data` is the JSON that it carries, `site` the home page."""
    files = {f"{NAME}/__init__.py": MODULE, f"{NAME}/{DATA}": data}
    return packed(NAME, version, files, METADATA, site)
