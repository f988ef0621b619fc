"""Waits in words: how many runs are ahead, how long one takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from django.utils.translation import gettext as _, ngettext

from kb.languages import current_lang
from kb.models import Repro
from runner.models import Build
from runner.runs.admission import FleetSnapshot


def wait_words(seconds: int) -> str:
    """About how long: an estimate has no seconds to spare."""
    if seconds < 10:
        return _("a few seconds")
    if seconds < 90:
        return _("about %(count)d seconds") % {"count": ceil(seconds / 10) * 10}
    if seconds < 90 * 60:
        minutes = round(seconds / 60)
        return ngettext(
            "about %(count)d minute", "about %(count)d minutes", minutes
        ) % {"count": minutes}
    hours = round(seconds / 3600)
    return ngettext("about %(count)d hour", "about %(count)d hours", hours) % {
        "count": hours
    }


def ahead(position: int) -> str:
    return ngettext(
        "%(ahead)s run is ahead in the queue.",
        "%(ahead)s runs are ahead in the queue.",
        position,
    ) % {"ahead": position}


def of_queued(position: int | None, eta_s: int | None) -> Iterator[str]:
    """Sentences about a run that waits; none for one that does not."""
    if position is None:
        return
    yield ahead(position) if position else _("Next in the queue.")
    if eta_s:
        yield _("It starts in %(wait)s.") % {"wait": wait_words(eta_s)}


def of_wish(position: int | None, eta_s: int | None) -> Iterator[str]:
    """Sentences about a run that one could start now; none where it would be next."""
    if not position:
        return
    yield ahead(position)
    if eta_s:
        yield _("It would start in %(wait)s.") % {"wait": wait_words(eta_s)}


def nobody() -> str:
    return _("No worker with this build is online just now; it starts when one is.")


def unserved(build: Build, device: str, repro: Repro | None = None) -> str:
    """Why no worker that is online takes what is queued; "" where one does."""
    fleet_now = FleetSnapshot()
    if repro:
        refused = fleet_now.refusal(repro, build, device)
    else:
        refused = fleet_now.unserved(build, device)
    if refused:
        return refused.detail(current_lang())
    return "" if fleet_now.serving(build, device) else nobody()
