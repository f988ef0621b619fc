"""Tests the layers of the sandbox from inside. Runs as a check.

    selfcheck.py LAYER ...

A layer is the neighbour of that name; its `failures` says what it should deny and does
not. Prints what was seen as JSON; exit status 1, with a line on stderr for each.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import landlock


def main() -> int:
    layers = [importlib.import_module(name) for name in sys.argv[1:]]
    failures = [text for layer in layers for text in layer.failures()]
    for text in failures:
        sys.stderr.write("selfcheck: %s\n" % text)
    print(json.dumps({"landlock": landlock.abi() if landlock in layers else 0}))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
