"""Sentences about a comparison, in both languages."""

from __future__ import annotations

from kb.languages import Text as _
from kb.releases.comparison import (
    BEGINS,
    BEHAVIOUR,
    CEASES,
    FIXED,
    LIKELY_FIXED,
    LIKELY_NEW,
    NEW,
    Comparison,
)
from kb.releases.verdicts import DIFFERS

SUMMARY = _(
    "{fixed} fixed, {new} new, {same} the same, {not_tested} not tested on both"
)
SUMMARY_DIFFERS = _(
    "{fixed} fixed, {new} new, {same} the same, {not_tested} not tested on both, "
    "{differs} where builds of a release differ"
)
NOTHING_IN_COMMON = _("No record was judged on both {before} and {after}.")
TITLES = {
    NEW: _("New"),
    FIXED: _("Fixed"),
    CEASES: _("Workarounds that cease to help"),
    BEGINS: _("Workarounds that begin to help"),
    BEHAVIOUR: _("Same verdict, other behaviour"),
    DIFFERS: _("Builds of one release differ"),
    LIKELY_NEW: _("Likely new"),
    LIKELY_FIXED: _("Likely fixed"),
}
MEANINGS = {
    NEW: _("Run on both: not seen on {before}, reproduced on {after}."),
    FIXED: _("Run on both: reproduced on {before}, not seen on {after}."),
    CEASES: _(
        "The bug is on both. Run against it, the workaround helped on {before} and "
        "does not on {after}."
    ),
    BEGINS: _(
        "The bug is on both. Run against it, the workaround did not help on {before} "
        "and does on {after}."
    ),
    BEHAVIOUR: _(
        "The verdict is the same on both; what the repro observed beside it is not, "
        "such as a warning."
    ),
    DIFFERS: _(
        "A release stands for its builds, and these do not agree; compare single "
        "builds."
    ),
    LIKELY_NEW: _(
        "Not run on both. By the versions that are documented, {before} is not "
        "affected and {after} is."
    ),
    LIKELY_FIXED: _(
        "Not run on both. By the versions that are documented, {before} is affected "
        "and {after} is not."
    ),
}


def summary(comparison: Comparison) -> dict[str, str]:
    """The first line: what becomes of all records."""
    counts = comparison.counts
    return (SUMMARY_DIFFERS if counts[DIFFERS] else SUMMARY).filled(**counts)


def meaning(kind: str, comparison: Comparison) -> dict[str, str]:
    sides = {"before": comparison.before.name, "after": comparison.after.name}
    return MEANINGS[kind].filled(**sides)
