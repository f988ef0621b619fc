"""Logins: asked for to read where READ_LOGIN says so, or taken from a proxy."""

from __future__ import annotations

import logging
import re
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import RemoteUserBackend
from django.contrib.auth.middleware import (
    LoginRequiredMiddleware,
    PersistentRemoteUserMiddleware,
)
from django.contrib.auth.models import Group
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from rest_framework.views import APIView

from config.middleware import GetResponse
from kb import problems

log = logging.getLogger(__name__)
LOOKALIKES = str.maketrans("01I", "oll")


class ReadLoginMiddleware(LoginRequiredMiddleware):
    """Shows nothing to strangers where READ_LOGIN is set.

    Decided on the view that answers, never on the address, which a proxy's header can
    change. Open is what says so itself: `login_not_required`.
    """

    def __init__(self, get_response: GetResponse) -> None:
        if not settings.READ_LOGIN:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    def process_view(
        self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if not issubclass(getattr(view_func, "cls", object), APIView):
            return super().process_view(request, view_func, view_args, view_kwargs)
        # REST framework opens its views for this middleware. Tokens are known to the
        # API itself (runner.api.rules).
        is_known = request.user.is_authenticated or "Authorization" in request.headers
        if is_known:
            return None
        said = _("Log in to read this site.")
        return problems.response(request, problems.Problem("unauthenticated", said))


class ProxyUserMiddleware(PersistentRemoteUserMiddleware):
    """Takes the user from the header that REMOTE_USER_HEADER names.

    Only for a site whose proxy sets or removes that header on every request.
    """

    def __init__(self, get_response: Any) -> None:
        if not settings.REMOTE_USER_HEADER:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    @property
    def header(self) -> str:  # type: ignore[override]
        name = settings.REMOTE_USER_HEADER.upper().replace("-", "_")
        return f"HTTP_{name}"


def readings(name: str) -> set[str]:
    """How a name may be read: in any case, and with letters for their lookalikes."""
    return {name.lower(), name.translate(LOOKALIKES).lower()}


class ProxyUserBackend(RemoteUserBackend):
    """Knows whom the proxy knows; a new user starts in REMOTE_USER_GROUP.

    A header that was sent twice arrives as one value with a comma: it is nobody's name.
    Nobody new is called what reads like somebody known: an operator makes that account.
    Staff and superusers log in by password, unless REMOTE_USER_STAFF is set.
    """

    USERNAME = re.compile(r"[\w.@+-]{1,150}", re.ASCII)

    def authenticate(  # type: ignore[override]  # as Django's own
        self, request: HttpRequest | None, remote_user: str | None
    ) -> Any:
        if remote_user is None or not self.USERNAME.fullmatch(remote_user):
            return None
        users = get_user_model().objects
        if not users.filter(username=remote_user).exists():
            names = users.values_list("username", flat=True)
            alike = [name for name in names if readings(name) & readings(remote_user)]
            if alike:
                log.warning("No account %s is made beside %s", remote_user, alike[0])
                return None
        return super().authenticate(request, remote_user)

    def user_can_authenticate(self, user: Any) -> bool:
        is_raised = user.is_staff or user.is_superuser
        allowed = settings.REMOTE_USER_STAFF or not is_raised
        return allowed and super().user_can_authenticate(user)

    def configure_user(
        self, request: HttpRequest | None, user: Any, created: bool = True
    ) -> Any:
        group = Group.objects.filter(name=settings.REMOTE_USER_GROUP).first()
        if created and group:
            user.groups.add(group)
        return user
