"""How many runs one may ask for: counted from the rows, so every process agrees."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address, ip_network
from math import ceil

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from runner.models import Run
from runner.runs import refusals
from runner.runs.fleet import ago
from runner.runs.refusals import RunRefused

HOUR = timedelta(hours=1)
IPV6_PREFIX = 64  # one household or machine has that many addresses
# For refusals that end when runs do, not after a known time.
RETRY_S = 30


def refusal(requester: str) -> RunRefused | None:
    """Why one may start no run now; None where one may.

    Codes: `throttled` is the requester's own limit, `busy` the site's.
    """
    queued = Q(state=Run.State.QUEUED)
    own = Q(requester=requester)
    rows = Run.objects.filter(queued | own & Q(created_at__gt=ago(HOUR)))
    counted = rows.order_by().aggregate(
        clicks=Count("pk", filter=queued & ~Q(priority=Run.Priority.MATRIX)),
        waiting=Count("pk", filter=queued & own),
        recent=Count("pk", filter=own & Q(created_at__gt=ago(HOUR))),
    )
    if counted["clicks"] >= settings.MAX_QUEUED:
        return waiting(refusals.QUEUE_FULL.refusal("busy"), RETRY_S)
    if not requester:
        return None
    if counted["waiting"] >= settings.QUEUED_PER_REQUESTER:
        words = refusals.OWN_QUEUE_FULL.refusal("throttled", count=counted["waiting"])
        return waiting(words, RETRY_S)
    if counted["recent"] >= settings.RUNS_PER_HOUR:
        words = refusals.TOO_OFTEN.refusal("throttled", count=counted["recent"])
        return waiting(words, seconds_until_one_more(requester))
    return None


def seconds_until_one_more(requester: str) -> int:
    """When the oldest run that counts will be an hour old."""
    recent = Run.objects.filter(requester=requester).order_by("-created_at")
    started = recent.values_list("created_at", flat=True)
    oldest = started[settings.RUNS_PER_HOUR - 1]
    return max(1, ceil((oldest + HOUR - timezone.now()).total_seconds()))


def waiting(refused: RunRefused, seconds: int) -> RunRefused:
    refused.wait_s = seconds
    return refused


def address_key(text: str) -> str:
    """Whom an address is counted as: itself, or its /64 network."""
    try:
        address = ip_address(text)
    except ValueError:
        return text[:100]
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, IPV6_PREFIX), strict=False))
