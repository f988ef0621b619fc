"""What was sent is kept for a week under its own address, which nothing else names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from kb.addresses import absolute
from kb.choices import DeviceClass
from kb.languages import Text as _
from portable import harness
from portable.nan_probe.schema import Refused, checked
from runner.captures import queue
from runner.models import Build, Capture, CaptureRun
from runner.runs import fleet, jobs, refusals, throttle
from runner.runs.refusals import RunRefused

# So long a run without its capture counts for a quota (runner.runs.throttle).
COUNTED = timedelta(hours=1)
# Of every answer about one.
HEADERS = {
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
}
# What is wrong with a capture, by the code of the refusal.
REFUSALS = {
    "size": _("The capture is too large to be sent: let nan_probe shrink it."),
    "encoding": _("This is not UTF-8 text: send capture.json as it was written."),
    "truncated": _("The capture is cut off: send the whole of capture.json."),
    "kind": _("This is not a capture: send the capture.json that nan_probe wrote."),
    "version": _("A capture of another version: fetch nan_probe here and catch again."),
    "digest": _("The capture was changed after it was written: send it as it was."),
    "field": _("A field of the capture is missing or wrong."),
    "function": _("This site does not run the captured function."),
    "value": _("An argument of the captured call is refused."),
    "numbers": _("The call has too many numbers to run here: let nan_probe shrink it."),
}
# Of which the probe, in English, names the field or value.
NAMED = ("field", "function", "value", "numbers")


def read(text: str | bytes) -> dict[str, Any]:
    """The whole capture. Raises RunRefused, with the code of what is wrong."""
    try:
        return checked(text)
    except Refused as error:
        said = dict(REFUSALS[error.code])
        if error.code in NAMED:
            said = {"en": f"{said['en']} ({error})", "zh": f"{said['zh']}（{error}）"}
        raise RunRefused(error.code, said) from error


def keep(text: str | bytes, builds: Sequence[Build], requester: str) -> Capture:
    """Keep a capture and queue it on each of these builds; a kept one, on those left.

    Raises RunRefused where it is none, could not be run, or was sent for these before.
    """
    capture = read(text)
    known = current().filter(digest=capture["digest"], requester=requester).first()
    if known:
        if not run_on(known, builds, requester):
            address = absolute(known.get_absolute_url())
            raise refusals.CAPTURE_KNOWN.refusal("known", address=address)
        return known
    refuse(builds, requester)
    with transaction.atomic():
        kept = Capture.objects.create(
            digest=capture["digest"],
            text=text if isinstance(text, str) else text.decode(),
            requester=requester,
        )
        start(kept, builds, requester)
    return kept


def run_on(capture: Capture, builds: Sequence[Build], requester: str) -> bool:
    """Queue what is kept where it has no run; False where it has. Raises RunRefused."""
    with transaction.atomic():
        # Held, or two who ask at once would both find no run.
        held = Capture.objects.select_for_update().filter(pk=capture.pk).first()
        known = set(capture.runs.values_list("build_id", flat=True))
        builds = [row for row in builds if held and row.slug not in known]
        refuse(builds, requester)
        start(capture, builds, requester)
    return bool(builds)


def refuse(builds: Sequence[Build], requester: str) -> None:
    """Raises RunRefused for what no worker could run, or who asks for too much."""
    for build in builds:
        if refused := queue.refusal(build):
            raise refused
    if refused := throttle.refusal(requester, CaptureRun, len(builds)):
        raise refused


def start(capture: Capture, builds: Sequence[Build], requester: str) -> None:
    for build in builds:
        run = CaptureRun.objects.create(
            capture=capture,
            build=build,
            device=DeviceClass.CPU,
            protocol=harness.PROTOCOL,
            requester=requester,
        )
        jobs.wake(run)


def current() -> QuerySet[Capture]:
    """Captures that are kept still; the others wait to be deleted."""
    return Capture.objects.filter(created_at__gt=fleet.ago(Capture.KEPT))


def find(capture_id: UUID) -> Capture | None:
    return current().filter(pk=capture_id).first()


def delete(capture: Capture) -> None:
    """At once, with what its runs showed; what runs now can write nothing more."""
    with transaction.atomic():
        active = capture.runs.filter(state__in=CaptureRun.ACTIVE)
        active.update(**jobs.ended(CaptureRun, CaptureRun.State.CANCELLED))
        capture.runs.update(outcome="", reason="", found={})
        capture.delete()


def forget() -> int:
    """Delete what is over a week old, and what counts for no quota any more."""
    old = Capture.objects.filter(created_at__lte=fleet.ago(Capture.KEPT))
    for capture in old:
        delete(capture)
    bare = CaptureRun.objects.filter(capture=None).exclude(state__in=CaptureRun.ACTIVE)
    done, _by_model = bare.filter(created_at__lt=fleet.ago(COUNTED)).delete()
    return done
