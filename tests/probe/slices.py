"""By which slice and law the trigger of each record fails, for nan_probe's `known`.

`python -m tests.probe.slices` runs them on the tests' build and writes its table anew.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from portable import harness
from tests.bench import probe
from tests.support.builds import torch_python
from tests.support.probes import PORTABLE

KNOWN = PORTABLE / "nan_probe" / "known.py"
BEGIN, END = 'TABLE = """\n', '"""\nRECORDS'


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


if __name__ == "__main__":
    main()
