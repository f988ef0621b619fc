"""Sources of shipped repros, made cheaper where a test asks nothing of what goes."""

from __future__ import annotations

import re

VARIANTS = re.compile(r"^# \[tool\.doesitnan\.variants\]\n(?:# (?!\[|///).*\n)*", re.M)


def without_variants(source: str) -> str:
    """The same repro, whose workarounds are run at one set of values only."""
    return VARIANTS.sub("", source)


def without_refuted(source: str) -> str:
    """The same repro, which no longer runs the advice that does not help."""
    return source.replace("def refuted_", "def left_out_")
