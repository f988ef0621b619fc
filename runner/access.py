"""Who may do what: the groups of a site, and the questions pages ask of them."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q
from django.http import HttpRequest
from rest_framework.throttling import BaseThrottle

from runner.models import Run
from runner.runs import throttle

VIEWER, RUNNER, EDITOR, OPERATOR = "viewer", "runner", "editor", "operator"
# Each group also has what stands before it. (app, model, actions) as Django names them.
GRANTS: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
    VIEWER: [("kb", "*", ("view",)), ("runner", "*", ("view",))],
    RUNNER: [("runner", "run", ("add", "change"))],
    EDITOR: [
        ("kb", "record", ("add", "change")),
        ("kb", "claim", ("add", "change", "delete")),
    ],
    OPERATOR: [
        ("runner", "worker", ("change", "delete")),
        ("runner", "device", ("change", "delete")),
        ("runner", "installation", ("change", "delete")),
    ],
}
START_RUNS = "runner.add_run"
OPERATE = "runner.change_worker"


def ensure_groups(using: str = DEFAULT_DB_ALIAS, **_options: object) -> None:
    """Make the groups where they are missing; one that exists is the site's own."""
    wanted = Q(pk__in=[])
    for name, grants in GRANTS.items():
        for app, model, actions in grants:
            for action in actions:
                rows = Q(content_type__app_label=app)
                rows &= (
                    Q(codename__startswith=f"{action}_")
                    if model == "*"
                    else Q(codename=f"{action}_{model}")
                )
                wanted |= rows
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            group.permissions.set(Permission.objects.using(using).filter(wanted))


def may_run(user: User | AnonymousUser) -> bool:
    """Start and cancel runs: anybody, or those with the permission to."""
    return settings.RUNS_ANONYMOUS or user.has_perm(START_RUNS)


def may_operate(user: User | AnonymousUser) -> bool:
    """Pause workers, cancel anybody's run."""
    return bool(user.has_perm(OPERATE))


def may_cancel(request: HttpRequest, run: Run) -> bool:
    """One's own runs, those of nobody in particular, and an operator all of them."""
    if not may_run(request.user):
        return False
    own = run.requester in ("", requester(request))
    return own or may_operate(request.user)


def requester(request: HttpRequest) -> str:
    """Whom a run is counted for: the user, else the address."""
    if not isinstance(request.user, AnonymousUser):
        return f"user:{request.user.pk}"
    # Behind NUM_PROXIES proxies it is what the outermost of them saw.
    ident = BaseThrottle().get_ident(request)  # type: ignore[arg-type]
    return f"address:{throttle.address_key(ident or '')}"
