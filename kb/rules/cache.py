"""What was found before in a file of this content, by these rules and this code: one
small JSON file each. They may be deleted at any time, and need not be writable."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence

from kb.rules.findings import Edit, Finding

Json = Dict[str, Any]
OURS = re.compile(r"[0-9a-f]{32}")


class Cache:
    """Of one set of rules; without a folder it holds nothing."""

    def __init__(self, folder: str, rules: List[Json]) -> None:
        self.rules = rules
        self.folder = ""
        if not folder:
            return
        of_rules = digest(json.dumps(rules, sort_keys=True), *own_sources())
        self.folder = os.path.join(folder, of_rules)
        with contextlib.suppress(OSError):
            if not os.path.isdir(self.folder):
                os.makedirs(self.folder)
                for name in filter(OURS.fullmatch, os.listdir(folder)):
                    # Those of other rules are of no use any more.
                    if name != of_rules:
                        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)

    def get(self, source: str) -> Optional[List[Finding]]:
        """None where nothing is known; a damaged entry is none."""
        if not self.folder:
            return None
        try:
            with open(self.path(source), encoding="utf-8") as file:
                return [self.restored(*entry) for entry in json.load(file)]
        except (OSError, ValueError, TypeError, IndexError):
            return None

    def put(self, source: str, findings: Sequence[Finding]) -> None:
        """Whole or not at all: another process may read or write the same."""
        if not self.folder:
            return
        entries = [
            [self.rules.index(one.rule), *one[1:5], one.edit] for one in findings
        ]
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(dir=self.folder)
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(name, self.path(source))

    def path(self, source: str) -> str:
        return os.path.join(self.folder, digest(source) + ".json")

    def restored(self, rule: int, *place: Any) -> Finding:
        line, column, end_line, end_column, edit = place
        ends = (end_line, end_column, edit and Edit(*edit))
        return Finding(self.rules[rule], line, column, *ends)


def digest(*texts: str) -> str:
    whole = hashlib.sha256()
    for text in texts:
        whole.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return whole.hexdigest()[:32]


def own_sources() -> List[str]:
    """The text of this package: other code may find other things."""
    package = __name__.rpartition(".")[0] + "."
    names = sorted(name for name in sys.modules if name.startswith(package))
    loaders = (getattr(sys.modules[name], "__loader__", None) for name in names)
    return [one.get_source(name) or "" for one, name in zip(loaders, names) if one]


def usual_folder() -> str:
    """Where programs keep such things for a user; "" where there is no home."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(home, "doesitnan", "lint") if os.path.isabs(home) else ""
