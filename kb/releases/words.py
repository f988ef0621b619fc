"""Sentences about a comparison, in both languages."""

from __future__ import annotations

from collections.abc import Mapping

from kb.choices import DEVICE_NAMES, WORKER_DEVICES
from kb.languages import COMMA, LIST_COMMA, SPACE, Text as _
from kb.releases.comparison import (
    BEGINS,
    BEHAVIOUR,
    CEASES,
    DIFFERS,
    FIXED,
    LIKELY_FIXED,
    LIKELY_NEW,
    NEW,
    NOT_TESTED,
    Comparison,
)

STOP = {"en": ".", "zh": "。"}
GROUNDED = _("{changed} ({known})")
# By whether it is one.
ARRIVE = {True: _("1 new bug"), False: _("{count} new bugs")}
LEAVE = {True: _("1 fixed"), False: _("{count} fixed")}
ALL_BY_RUNS = _("all from {devices} runs")
ALL_BY_DOCUMENTS = _("all from documents, not from runs")
BY_BOTH = _("{runs} from {devices} runs, {documents} from documents")
NOTHING_RUN = _("Nothing was run on both")
NOTHING_RUN_THERE = _("On {device}, nothing was run on both")
REST = _("{same} unchanged, {left} more not tested on both")
DIFFERING = _("{differs} where builds of a release differ")
TITLES = {
    NEW: _("New"),
    LIKELY_NEW: _("Likely new"),
    FIXED: _("Fixed"),
    LIKELY_FIXED: _("Likely fixed"),
    CEASES: _("Workarounds that cease to help"),
    BEGINS: _("Workarounds that begin to help"),
    BEHAVIOUR: _("Same verdict, other behaviour"),
    DIFFERS: _("Builds of one release differ"),
}
MEANINGS = {
    NEW: _(
        "Reproduced on {after}. On {before} it was not seen, or nothing was run and "
        "documents say that it is not affected."
    ),
    FIXED: _(
        "Not seen on {after}. On {before} it was reproduced, or nothing was run and "
        "documents say that it is affected."
    ),
    CEASES: _(
        "Both have the bug. In our runs, the workaround helps on {before} and does "
        "not help on {after}."
    ),
    BEGINS: _(
        "Both have the bug. In our runs, the workaround does not help on {before} "
        "and helps on {after}."
    ),
    BEHAVIOUR: _(
        "The verdict is the same on both, but something else that the repro observed "
        "is not, such as a warning."
    ),
    DIFFERS: _("The builds of one release disagree; compare single builds."),
    LIKELY_NEW: _(
        "Not run on both. According to the documents, {before} is not affected and "
        "{after} is."
    ),
    LIKELY_FIXED: _(
        "Not run on both. According to the documents, {before} is affected and "
        "{after} is not."
    ),
}


def summary(found: Comparison) -> dict[str, str]:
    """The first lines: what comes and goes, how that is known, and the rest."""
    counts = found.counts
    arrive, leave = (
        counts[NEW] + counts[LIKELY_NEW],
        counts[FIXED] + counts[LIKELY_FIXED],
    )
    head = [
        ARRIVE[arrive == 1].filled(count=arrive),
        LEAVE[leave == 1].filled(count=leave),
    ]
    # What documents alone say was not tested on both, either.
    left = counts[NOT_TESTED] - counts[LIKELY_NEW] - counts[LIKELY_FIXED]
    rest = [REST.filled(same=counts["same"], left=left)]
    rest += [DIFFERING.filled(**counts)] if counts[DIFFERS] else []
    changed, known = joined(head, COMMA), grounds(found)
    if known:
        changed = GROUNDED.filled(changed=changed, known=known)
    sentences = [changed, joined(rest, COMMA), *unrun(found)]
    return {
        lang: SPACE[lang].join(one[lang] + stop for one in sentences)
        for lang, stop in STOP.items()
    }


def joined(parts: list[dict[str, str]], between: Mapping[str, str]) -> dict[str, str]:
    return {
        lang: sign.join(part[lang] for part in parts) for lang, sign in between.items()
    }


def grounds(found: Comparison) -> dict[str, str] | None:
    """What says that bugs come and go: runs, on which devices, or documents."""
    counts = found.counts
    runs, documents = (
        counts[NEW] + counts[FIXED],
        counts[LIKELY_NEW] + counts[LIKELY_FIXED],
    )
    items = [item for kind in (NEW, FIXED) for item in found.changed.get(kind, [])]
    devices = named(sorted({item.device for item in items}))
    if runs and documents:
        return BY_BOTH.filled(runs=runs, documents=documents, devices=devices)
    if runs:
        return ALL_BY_RUNS.filled(devices=devices)
    return dict(ALL_BY_DOCUMENTS) if documents else None


def unrun(found: Comparison) -> list[dict[str, str]]:
    """On which of the devices that are asked for nothing was judged on both."""
    if not found.devices:
        return [dict(NOTHING_RUN)]
    asked = [found.device] if found.device else list(dict(WORKER_DEVICES))
    missing = named([device for device in asked if device not in found.devices])
    return [NOTHING_RUN_THERE.filled(device=missing)] if missing["en"] else []


def named(devices: list[str]) -> dict[str, str]:
    names = [DEVICE_NAMES[device] for device in devices]
    return {lang: sign.join(names) for lang, sign in LIST_COMMA.items()}


def meaning(kind: str, comparison: Comparison) -> dict[str, str]:
    sides = {"before": comparison.before.name, "after": comparison.after.name}
    return MEANINGS[kind].filled(**sides)
