"""Who may do what over the API: one table, asked before every operation.

| who                                   | reads | runs, cancels own | sends evidence |
|---------------------------------------|-------|-------------------|----------------|
| nobody in particular                  | yes¹  | yes², by quota    | no             |
| a user with a session                 | yes   | yes²³             | no             |
| a token with the scope `run`          | yes   | yes²³             | no             |
| a token with the scope `evidence`     | yes   | no                | yes            |
| a token without the scope             | yes   | no                | no             |
| a token that is unknown or expired    | no    | no                | no             |

¹ not where READ_LOGIN is set. ² where RUNS_ANONYMOUS is set. ³ else with the
permission runner.add_run. What is said of runs goes for sweeps and captures.
Cancelling somebody else's, or a run that a worker asked of itself, takes
runner.change_worker (runner.access.may_cancel). A capture is deleted by whoever knows
its address and may start runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from kb.problems import Problem
from runner import access
from runner.models.token import Token


def read(request: Request) -> None:
    if settings.READ_LOGIN and not request.user.is_authenticated:
        raise Problem("unauthenticated", _("Log in to read this site."))


def run(request: Request) -> None:
    read(request)
    if isinstance(request.auth, Token) and Token.Scope.RUN not in request.auth.scopes:
        raise Problem("forbidden", _("This token lacks the scope run."))
    if access.may_run(request.user):
        return
    if request.user.is_authenticated:
        raise Problem("forbidden", _("Your account may not start runs."))
    raise Problem("unauthenticated", _("Log in to start or cancel runs."))


def evidence(request: Request) -> None:
    if not isinstance(request.auth, Token):
        said = _("Send a token with the scope evidence: Authorization: Bearer dtn_…")
        raise Problem("unauthenticated", said)
    if Token.Scope.EVIDENCE not in request.auth.scopes:
        raise Problem("forbidden", _("This token lacks the scope evidence."))


Rule = Callable[[Request], None]
RULES: dict[str, Rule] = {
    "list_records": read,
    "get_record": read,
    "get_record_matrix": read,
    "get_single_file": read,
    "get_doctor": read,
    "get_linter": read,
    "get_user_command": read,
    "get_client": read,
    "get_service": read,
    "look_up": read,
    "get_record_affected": read,
    "list_contradictions": read,
    "compare_builds": read,
    "list_builds": read,
    "list_workers": read,
    "list_runs": read,
    "submit_run": run,
    "get_run": read,
    "get_run_log": read,
    "cancel_run": run,
    "submit_sweep": run,
    "get_sweep": read,
    "cancel_sweep": run,
    "submit_capture": run,
    "get_capture": read,
    "delete_capture": run,
    "list_evidence": read,
    "submit_evidence": evidence,
    "get_evidence": read,
    "get_openapi": read,
    # /mcp, which asks `run` itself for the tool that starts runs.
    "use_tools": read,
}


class ByRule(BasePermission):
    """The rule of the operation. One that is not in the table is refused."""

    def has_permission(self, request: Request, view: Any) -> bool:
        handler = getattr(view, (request.method or "").lower(), None)
        if handler is None or request.method == "OPTIONS":
            return True  # answered with 405, or with the methods there are
        rule = RULES.get(getattr(handler, "operation_name", ""))
        if rule is None:
            raise Problem("forbidden", _("Nobody may do this here."))
        rule(request)
        return True
