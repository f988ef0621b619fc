"""The torch build and device a reader asks about: in the address, else remembered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

from kb.choices import DeviceClass

COOKIES = {"torch": "dtn_torch", "device": "dtn_device"}
YEAR_S = 365 * 24 * 3600
# A build's slug or a version as torch prints it, a little of what people type.
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,119}")
# What pip freeze or pip list print of torch.
TORCH_LINE = re.compile(r"(?<![\w-])torch(?:==|\s+|\s*@\s*)(?=[0-9])")
MAX_TYPED = 200


@dataclass(frozen=True)
class ReaderChoice:
    torch: str
    device: str


def of(request: HttpRequest) -> ReaderChoice:
    """The address decides; a page opened without asking shows the last choice."""
    return ReaderChoice(requested(request, "torch"), requested(request, "device"))


def requested(request: HttpRequest, name: str) -> str:
    remembered = request.COOKIES.get(COOKIES[name], "")
    typed = request.GET.get(name, remembered)[:MAX_TYPED].strip()
    line = TORCH_LINE.search(typed)
    return typed[line.end() :].split(maxsplit=1)[0] if line else typed


def remember(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Keep what the address asked for; the page depends on what was kept."""
    patch_vary_headers(response, ("Cookie",))
    torch, device = requested(request, "torch"), request.GET.get("device", "")
    if "torch" in request.GET and VERSION.fullmatch(torch):
        keep(response, "torch", torch)
    if device in DeviceClass.values:
        keep(response, "device", device)
    return response


def keep(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(COOKIES[name], value, max_age=YEAR_S, samesite="Lax")
