"""Who asks, and what they may: groups of a site; who may run, cancel and operate."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q
from django.http import HttpRequest
from rest_framework.throttling import BaseThrottle

from runner.models.job import QueueJob

IPV6_PREFIX = 64  # one household or machine has that many addresses
VIEWER, RUNNER, OPERATOR = "viewer", "runner", "operator"
# Each group includes the grants above it. (app, model, actions) in Django's names.
# Tokens of the API, and captures, which only their address shows.
HIDDEN = ("token", "capture", "capturerun")
GRANTS: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
    VIEWER: [("kb", "*", ("view",)), ("runner", "*", ("view",))],
    RUNNER: [("runner", "run", ("add", "change"))],
    OPERATOR: [
        ("runner", "worker", ("change", "delete")),
        ("runner", "device", ("change", "delete")),
        ("runner", "installation", ("change", "delete")),
        ("runner", "evidence", ("delete",)),
        ("runner", "sweep", ("delete",)),
    ],
}
START_RUNS = "runner.add_run"
OPERATE = "runner.change_worker"


def ensure_groups(using: str = DEFAULT_DB_ALIAS, **_options: object) -> None:
    """Create missing groups; an existing one belongs to the site and is not changed."""
    granted = Q(pk__in=[])
    for name, grants in GRANTS.items():
        for app, model, actions in grants:
            for action in actions:
                rows = Q(content_type__app_label=app)
                rows &= (
                    Q(codename__startswith=f"{action}_")
                    & ~Q(content_type__model__in=HIDDEN)
                    if model == "*"
                    else Q(codename=f"{action}_{model}")
                )
                granted |= rows
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            group.permissions.set(Permission.objects.using(using).filter(granted))


def may_run(user: User | AnonymousUser) -> bool:
    """Whether a user may start and cancel runs."""
    return settings.RUNS_ANONYMOUS or user.has_perm(START_RUNS)


def may_operate(user: User | AnonymousUser) -> bool:
    """Whether a user may pause workers and cancel the runs of others."""
    return bool(user.has_perm(OPERATE))


def may_cancel(request: HttpRequest, job: QueueJob) -> bool:
    """Whether one waits for it oneself; operators may always.

    Nobody owns what a worker asked of itself: fills of the matrix, re-verification.
    """
    is_own = may_run(request.user) and job.is_wanted_by(requester(request))
    return is_own or may_operate(request.user)


def requester(request: HttpRequest) -> str:
    """The key that rate limits count under: the user, else the address."""
    if not isinstance(request.user, AnonymousUser):
        return f"user:{request.user.pk}"
    # Behind NUM_PROXIES proxies, the address that the outermost one saw.
    ident = BaseThrottle().get_ident(request)  # type: ignore[arg-type]
    return f"address:{address_key(ident or '')}"


def address_key(text: str) -> str:
    """The key an address is counted under: an IPv4 address, or an IPv6 /64 network."""
    try:
        address = ip_address(text)
    except ValueError:
        return text[:100]
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, IPV6_PREFIX), strict=False))
