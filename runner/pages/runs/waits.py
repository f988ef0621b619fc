"""Waits in words: how many runs are ahead, how long one takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from django.utils.translation import gettext as _, ngettext


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


def duration(seconds: float) -> str:
    """What something took, or may take: no digits that nobody reads."""
    if seconds < 10:
        return _("%(count).1f s") % {"count": seconds}
    if seconds < 90:
        return _("%(count)d s") % {"count": round(seconds)}
    return _("%(count)d min") % {"count": round(seconds / 60)}


def usual(seconds: float, runs: int, where: str) -> str:
    """What equal runs took; `where` they were executed, see `Usual`."""
    said = {
        "build": ngettext(
            "Usually %(time)s: the last run on this build.",
            "Usually %(time)s: the median of %(runs)s runs on this build.",
            runs,
        ),
        "repro": ngettext(
            "Usually %(time)s: the last run of this repro, on another build.",
            "Usually %(time)s: the median of %(runs)s runs on other builds.",
            runs,
        ),
        "recorded": ngettext(
            "Took %(time)s where its evidence comes from.",
            "Took %(time)s where its evidence comes from: the median of %(runs)s.",
            runs,
        ),
    }[where]
    return said % {"time": duration(seconds), "runs": runs}
