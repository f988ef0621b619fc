"""The colours a reader chose: in a cookie that the server reads, so nothing flashes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import pgettext_lazy

COOKIE = "dtn_theme"
YEAR_S = 365 * 24 * 3600
# "" follows the system.
LABELS: dict[str, str | Promise] = {
    "": pgettext_lazy("colours", "auto"),
    "light": pgettext_lazy("colours", "light"),
    "dark": pgettext_lazy("colours", "dark"),
}


@dataclass(frozen=True)
class Theme:
    """What was chosen, what else there is, and the page to come back to."""

    chosen: str
    back: str

    labels = LABELS

    @property
    def color_scheme(self) -> str:
        return self.chosen or "light dark"


def of(request: HttpRequest) -> Theme:
    """A form's answer has no address to come back to: its own button asks for it."""
    chosen = request.COOKIES.get(COOKIE, "")
    if request.method == "POST":
        chosen = request.GET.get("theme", chosen)
    return Theme(chosen if chosen in LABELS else "", own_page(request))


def own_page(request: HttpRequest) -> str:
    """This page; of a form's answer, which has no address, the page with the form."""
    if request.method in {"GET", "HEAD"}:
        return request.get_full_path()
    try:
        form = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return ""
    return form._replace(scheme="", netloc="").geturl()


def choose(request: HttpRequest) -> HttpResponse:
    """Keep what a form asks for and go back to its page."""
    back = request.POST.get("back", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = reverse("front")
    return keep(redirect(back), request.POST.get("theme", ""))


def remember(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Keep what the address of a form's answer asks for."""
    asked = request.GET.get("theme")
    return response if asked is None else keep(response, asked)


def keep(response: HttpResponse, chosen: str) -> HttpResponse:
    if chosen and chosen in LABELS:
        response.set_cookie(COOKIE, chosen, max_age=YEAR_S, samesite="Lax")
    else:
        response.delete_cookie(COOKIE, samesite="Lax")
    return response
