"""Finds a real torch for the tests that run one."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from config import bootstrap
from runner.builds import pins


@cache
def torch_python() -> str:
    """An interpreter that imports torch: DOESITNAN_TEST_PYTHON, else a build of ours.

    Of several that which a new site installs: the tests are written for its torch.

    Raises AssertionError where there is none, so that a test fails and is not skipped.
    """
    named = os.environ.get("DOESITNAN_TEST_PYTHON", "")
    # The clone's: tests have a folder of builds of their own (tests.support.own_data).
    builds = Path(os.environ.get("DOESITNAN_TEST_BUILDS") or bootstrap.builds_dir())
    default = str(builds / pins.default_build().slug / "bin/python")
    every = sorted(map(str, builds.glob("*/bin/python")))
    found = [named] if named else [default, *every]
    for interpreter in found:
        if os.access(interpreter, os.X_OK):
            return interpreter
    raise AssertionError(
        f"no torch build for the tests at {named or builds}: run `make test`, which "
        "installs one, or set DOESITNAN_TEST_PYTHON to a Python that imports torch"
    )
