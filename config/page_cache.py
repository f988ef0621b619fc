"""Answers pages that anybody may see, and that have not changed, from memory.

A page is kept under what it depends on: its address and host, the choices that its
reader's cookies hold, the version counters of records and findings, and of pages that
start runs the state of the fleet. So a new evidence or an edit shows at once. Whoever
is logged in, has a message waiting or sends a token is never answered from here, and
nothing of such an answer is kept; a form's token is written anew for each reader.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.cache import caches
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.utils.cache import get_conditional_response, patch_vary_headers

from config.middleware import GetResponse
from kb import progress
from kb.pages import reader_choice, theme
from kb.search.index.generation import current_generation
from runner.access import requester
from runner.models import Installation, Run, Sweep
from runner.models.job import QueueJob
from runner.runs import fleet, throttle

# Pages that show records and findings alone: an entry is good until these change.
KNOWLEDGE = frozenset(
    [
        *("front", "record-list", "claim-list", "contradiction-list"),
        *("symptom-detail", "law-detail", "evidence-detail"),
        *("compare-start", "compare"),
    ]
)
# Pages that can start a run, too.
WITH_FLEET = frozenset(["record-detail", "matrix"])
# The fleet is asked for its state once in so many seconds.
FLEET_S = 1.0
LONGEST_PATH = 300
CHOICES = (theme.COOKIE, *reader_choice.COOKIES.values())
TOKEN = re.compile(rb'name="csrfmiddlewaretoken" value="([^"]+)"')
# In the place of a form's token; nobody outside this process knows it.
PLACE = secrets.token_hex(16).encode()


class Kept(NamedTuple):
    """A page as it was answered, compressed, with PLACE for a form's token."""

    packed: bytes
    digest: str
    content_type: str
    has_token: bool


# Of the readers who ask for the same page at once, one has it made.
MAKING = [threading.Lock() for _ in range(64)]


class PageCacheMiddleware:
    """Innermost, so that sessions, tokens, headers and compression stay around it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with ExitStack() as making:
            request.page_making = making  # type: ignore[attr-defined]
            response = self.get_response(request)
            key = getattr(request, "page_key", "")
            if not key or not isinstance(response, HttpResponse):
                return response
            kept = keepable(response)
            if kept is None:
                return response
            caches["pages"].set(key, kept, settings.PAGE_CACHE_SECONDS)
        # Answered as the next reader is: with the same validator.
        return answer(request, kept)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        key = key_of(request)
        if not key:
            return None
        kept = caches["pages"].get(key)
        if kept is None:
            lock = MAKING[int(key[:8], 16) % len(MAKING)]
            request.page_making.enter_context(lock)  # type: ignore[attr-defined]
            kept = caches["pages"].get(key)
        if kept is not None:
            return answer(request, kept)
        request.page_key = key  # type: ignore[attr-defined]
        return None


def key_of(request: HttpRequest) -> str:
    """The key under which the page that is asked for is kept; "": it must not be."""
    match = request.resolver_match
    name = match.url_name if match else None
    with_fleet = name in WITH_FLEET
    if not (with_fleet or name in KNOWLEDGE) or not is_anybody(request):
        return ""
    # Read before the page is made: what is kept is then never older than its key.
    parts: list[Hashable] = [current_generation()]
    if with_fleet:
        if throttle.refusal(requester(request)):
            return ""  # its form says so, to this reader
        parts.append(fleet_state())
    choices = tuple(request.COOKIES.get(cookie, "") for cookie in CHOICES)
    where = request.scheme, request.get_host(), request.get_full_path()
    return hashlib.sha256(repr((parts, choices, where)).encode()).hexdigest()


def is_anybody(request: HttpRequest) -> bool:
    """Whether the answer is one that every stranger gets."""
    closed = settings.READ_LOGIN or settings.REMOTE_USER_HEADER or settings.DEBUG
    personal = (settings.SESSION_COOKIE_NAME, CookieStorage.cookie_name)
    return not (
        closed
        or not settings.PAGE_CACHE_SECONDS
        or request.method not in ("GET", "HEAD")
        or any(name in request.COOKIES for name in personal)
        or "Authorization" in request.headers
        or "HX-Request" in request.headers
        or len(request.get_full_path()) > LONGEST_PATH
        or progress.underway()
    )


def fleet_state() -> str:
    """A digest of what forms say of workers, builds and the queue; a second old."""
    state = caches["pages"].get_or_set("fleet", ask_fleet, FLEET_S)
    return str(state)


def ask_fleet() -> str:
    workers = fleet.online_workers().values_list(
        *("name", "queues", "devices", "paused", "draining", "slots", "protocol")
    )
    rows = (
        *map(standing_of, (Run, Sweep)),
        list(workers),
        list(Installation.objects.order_by("pk").values_list("pk", "state", "build")),
    )
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def standing_of(kind: type[QueueJob]) -> tuple[object, ...]:
    """What changes when one of these comes, begins, ends or goes."""
    rows = kind._default_manager
    active = (
        rows.filter(state__in=kind.ACTIVE).order_by("pk").values_list("pk", "state")
    )
    return rows.aggregate(Max("finished_at"), Count("pk")), list(active)


def keepable(response: HttpResponse) -> Kept | None:
    """The answer as it is kept; None for one that is for its reader alone."""
    # What a view packed itself would be packed twice, and be no page to anybody.
    closed = "Cache-Control" in response or "Content-Encoding" in response
    if response.status_code != 200 or response.cookies or closed:
        return None
    body = response.content
    tokens = set(TOKEN.findall(body))
    for token in tokens:
        body = body.replace(token, PLACE)
    packed = gzip.compress(body, mtime=0)
    # Of the page, not of its key: after an upgrade the same records look otherwise.
    digest = hashlib.sha256(packed).hexdigest()
    return Kept(packed, digest, response["Content-Type"], bool(tokens))


def answer(request: HttpRequest, kept: Kept) -> HttpResponseBase:
    """The page for this reader, or 304 where they have it."""
    etag, cookie = kept.digest, request.COOKIES.get(settings.CSRF_COOKIE_NAME, "")
    if kept.has_token:
        # Theirs has a token that fits their cookie, and nobody else's.
        etag = hashlib.sha256(f"{etag} {cookie}".encode()).hexdigest()
    # Weak: it is sent in more than one encoding.
    etag = f'W/"{etag[:32]}"'
    may_have_it = cookie or not kept.has_token
    known = get_conditional_response(request, etag=etag) if may_have_it else None
    response: HttpResponseBase = known or whole(request, kept)
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ("Cookie",))
    return response


def whole(request: HttpRequest, kept: Kept) -> HttpResponse:
    packed = kept.packed
    if "gzip" in request.headers.get("Accept-Encoding", "") and not kept.has_token:
        response = HttpResponse(packed, content_type=kept.content_type)
        response["Content-Encoding"] = "gzip"
        patch_vary_headers(response, ("Accept-Encoding",))
        return response
    body = gzip.decompress(packed)
    if kept.has_token:
        body = body.replace(PLACE, get_token(request).encode())
    return HttpResponse(body, content_type=kept.content_type)
