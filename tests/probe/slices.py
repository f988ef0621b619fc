"""By which slice and law the trigger of each record fails, for nan_probe's `known`.

`python -m tests.probe.slices` runs them on the tests' build and writes its table anew,
and beside this file of which triggers it is, so that a test can tell an older table.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from portable import harness
from tests.bench import probe
from tests.support.builds import torch_python
from tests.support.probes import PORTABLE

KNOWN = PORTABLE / "nan_probe" / "known.py"
OF = Path(__file__).with_suffix(".json")
BEGIN, END = 'TABLE = """\n', '"""\nRECORDS'


def triggers() -> dict[str, str]:
    """Of each record whose repro is asked, the digest of what its trigger executes."""
    sources = [path.read_text() for path in probe.repros()]
    return {
        str(harness.parse_header(one).record): harness.parts_of(one)["trigger"]
        for one in sources
    }


def main() -> None:
    python, found = torch_python(), {}
    for path in probe.repros():
        said = probe.captured(python, "", path)
        if said.get("slice"):
            record = harness.parse_header(path.read_text()).record
            found[record] = said["slice"], said["law"]
            print(record, *found[record], file=sys.stderr, flush=True)
    rows = [f"{name} | {law} | {text}\n" for name, (text, law) in sorted(found.items())]
    head, _, rest = KNOWN.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    KNOWN.write_text(head + BEGIN + "".join(rows) + END + tail)
    OF.write_text(json.dumps(triggers(), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
