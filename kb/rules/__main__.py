#!/usr/bin/env python3
"""`python -m kb.rules PATH…` in a checkout; the hook of .pre-commit-hooks.yaml."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def start() -> int:
    # Started as a file, the modules beside it are no top-level ones.
    sys.path[:] = [ROOT, *(path for path in sys.path if path not in (HERE, ROOT))]
    from kb.rules import checkout, command  # the path to them is known only now

    rules = checkout.rules_of(os.path.join(ROOT, "fixtures", "issues"))
    return command.main(rules, sys.argv[1:], prog="doesitnan lint")


if __name__ == "__main__":
    sys.exit(start())
