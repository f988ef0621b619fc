"""Pages of symptoms."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from kb.symptoms import page


@require_safe
def symptom_detail(request: HttpRequest, slug: str) -> HttpResponse:
    found = page.build(slug)
    if found is None:
        raise Http404(_("There is no symptom %s.") % slug)
    return render(request, "kb/symptom.html", {"page": found})
