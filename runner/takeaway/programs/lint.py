"""`python lint.py PATH…`: which traps of known training failures does this code have?

Exit status: 0 nothing was found, 1 something was, 2 wrong usage. Nothing is sent.
"""

import io
import json
import os
import sys
from typing import List

from kb.rules import command


def main(folder: str, argv: List[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    with io.open(os.path.join(folder, "rules.json"), encoding="utf-8") as file:
        rules = json.load(file)
    prog = os.environ.get("DOESITNAN_PROG") or "lint.py"
    return command.main(rules, argv, prog)
