"""A kept run, judged anew: whether it is of this source and shows what it should."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from portable import harness


def judged(body: dict[str, Any], source: str) -> dict[str, str]:
    """The status of each workaround.

    Raises ValueError where the run is not of this source, says otherwise than its
    checks, or does not show the bug.
    """
    header, names = harness.read_repro(source)
    if body["digest"] != harness.evidence_digest(body):
        raise ValueError(_("was changed after it was written"))
    if body["repro"]["digest"] != harness.source_digest(source):
        raise ValueError(_("comes from another program: run this one"))
    found = harness.judge(header, body["checks"], names)
    if harness.misrecorded(header, body["checks"]) or found.verdict != body["verdict"]:
        raise ValueError(_("disagrees with its checks"))
    if found.verdict != "bug_present":
        raise ValueError(_("does not show what it should: %s") % found.verdict)
    return dict(found.workarounds)
