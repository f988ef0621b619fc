"""What is answered where a request could not be: 500, or 503 where that will pass.

Nothing here asks the database, and a problem document needs no template either.
"""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from kb import problems
from kb.languages import HTML_TAG, current_lang
from kb.problems import Problem

ASKED_BY_PROGRAMS = ("/api/", "/osv/", "/mcp", "/metrics")


def answer(request: HttpRequest) -> HttpResponse:
    """handler500, which Django calls while it handles the exception."""
    is_away = problems.is_outage(sys.exc_info()[1])
    if request.path_info.startswith(ASKED_BY_PROGRAMS):
        response = problem_of(request, is_away=is_away)
    else:
        response = page_of(503 if is_away else 500)
    if is_away:
        response.headers["Retry-After"] = str(problems.RETRY_S)
    return response


def page_of(status: int) -> HttpResponse:
    lang = current_lang()
    context = {"status": status, "lang": lang, "tag": HTML_TAG[lang]}
    return HttpResponse(render_to_string(f"{status}.html", context), status=status)


def problem_of(request: HttpRequest, *, is_away: bool) -> HttpResponse:
    problem = Problem("internal", _("Something broke here; it is in the log."))
    if is_away:
        said = _(
            "The site's database does not respond or is full. Try again later: what "
            "you sent may not be saved."
        )
        problem = Problem("busy", said)
    return problems.response(request, problem)
