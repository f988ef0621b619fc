"""The page of the API's documentation."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from kb.reference.document import reference
from kb.syndication.metadata import base_address


@require_safe
def api_reference(request: HttpRequest) -> HttpResponse:
    context = {"reference": reference(), "base": base_address(request)}
    return render(request, "kb/reference.html", context)
