"""The form that takes a capture: a file or a paste, and the builds to run it on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils.html import format_html
from django.utils.translation import gettext as _

from portable.nan_probe.schema import LARGEST
from runner import access
from runner.access import requester
from runner.captures import keeping, queue
from runner.models import Build, Capture
from runner.pages.run_form import Refusal, refusal_of, require_right
from runner.runs import admission
from runner.runs.refusals import RunRefused

ADDRESS = re.compile(r"(?:https?://[^\s/]+)?/(?:en|zh)/captures/[0-9a-f-]{36}/")


@dataclass(frozen=True)
class SendPage:
    """`chosen`: slugs of builds; what was pasted stays where it was refused."""

    builds: list[Build]
    chosen: list[str]
    may_run: bool
    text: str = ""
    error: str = ""

    @property
    def said(self) -> str:
        """The refusal, in which the address of a capture is a link."""
        found = ADDRESS.search(self.error)
        if not found:
            return self.error
        around = self.error[: found.start()], self.error[found.end() :]
        link = format_html('<a href="{0}">{0}</a>', found[0])
        return format_html("{}{}{}", around[0], link, around[1])


def build(request: HttpRequest, error: str = "") -> SendPage:
    builds = admission.installed_builds()
    default = [row.slug for row in queue.able()[:1]]
    sent = request.POST
    return SendPage(
        builds=builds,
        chosen=sent.getlist("build") or default,
        may_run=access.may_run(request.user),
        text=sent.get("capture", ""),
        error=error,
    )


def submit(request: HttpRequest) -> Capture:
    """Keep what the form holds and queue it. Raises Refusal."""
    require_right(request)
    text = text_of(request)
    if not text.strip():
        raise Refusal(_("Nothing was sent: choose capture.json or paste it."), 400)
    try:
        return keeping.keep(text, chosen(request.POST), requester(request))
    except RunRefused as error:
        refusal = refusal_of(error)
        if error.code in keeping.REFUSALS:
            refusal.status = 413 if error.code == "size" else 422
        raise refusal from error


def run_on_more(request: HttpRequest, capture: Capture) -> Refusal | None:
    """Queue a kept capture on the builds that are named; or why not."""
    try:
        require_right(request)
        keeping.run_on(capture, chosen(request.POST), requester(request))
    except RunRefused as error:
        return refusal_of(error)
    except Refusal as error:
        return error
    return None


def text_of(request: HttpRequest) -> str | bytes:
    """The file where one was chosen, else what was pasted; no more than is needed."""
    file: Any = request.FILES.get("file")
    if file is not None:
        return bytes(file.read(LARGEST + 1))
    # A form sends lines as CRLF; within JSON they are white space alone.
    return request.POST.get("capture", "")


def chosen(sent: QueryDict) -> list[Build]:
    """The builds to run on. Raises Refusal."""
    builds = queue.chosen(sent.getlist("build"))
    if not builds:
        said = _("Nothing is installed here.")
        raise Refusal(f"{said} {_('Start a worker that has a torch first.')}", 409)
    return builds
