"""Keeping an answer for others: what would be kept is shown first, then an address."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from kb.lookup import answer as lookup
from kb.models import SharedAnswer
from kb.pages import theme
from kb.sharing import pages, rows


# Reads only, as the look-up whose page leads here: nothing is kept by it.
@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def preview(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return redirect("front")
    require_rights(request)
    try:
        page = pages.first_preview(request)
    except (lookup.EmptyPaste, lookup.PasteTooLarge):
        return redirect("front")
    return show_preview(request, page)


@never_cache
@require_POST
def keep(request: HttpRequest) -> HttpResponse:
    """Keep what was shown, exactly that; what is masked anew is shown first."""
    require_rights(request)
    maker = rows.maker_of(request)
    page = pages.next_preview(request, maker)
    if "look" in request.POST or not page.may_be_kept:
        return show_preview(request, page)
    return kept_now(request, rows.keep(page.kept, maker))


def kept_now(request: HttpRequest, row: SharedAnswer) -> HttpResponse:
    """To its address; what deletes it is said once."""
    path = reverse("shared-answer-delete", args=[row.pk])
    said = format_html(
        "{} <br><code>{}</code><br>{} <br><code>{}</code>",
        _("The answer is kept. This browser can delete it again; others can here:"),
        request.build_absolute_uri(path),
        # Not in the address: addresses end up in logs and histories.
        _("They are asked for this code, which is shown only now:"),
        rows.token_of(row),
    )
    messages.success(request, said)
    response = redirect(row)
    rows.remember(request, response, row)
    return response


@never_cache
@require_safe
def shared_answer(request: HttpRequest, answer_id: str) -> HttpResponse:
    page = pages.kept_page(request, wanted(answer_id))
    return unlisted(render(request, "kb/sharing/answer.html", {"page": page}))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, answer_id: str) -> HttpResponse:
    row = wanted(answer_id)
    code = request.POST.get("code", "").strip()
    may_delete = rows.may_delete(request, row, code)
    if request.method == "POST" and may_delete:
        rows.delete(row)
        messages.success(request, _("The answer is deleted."))
        return redirect("front")
    refused = request.method == "POST"
    context = {"row": row, "asks": not may_delete, "refused": refused}
    status = 403 if refused else 200
    page = render(request, "kb/sharing/delete.html", context, status=status)
    return unlisted(page)


def show_preview(request: HttpRequest, page: pages.PreviewPage) -> HttpResponse:
    response = render(
        request, "kb/sharing/preview.html", {"page": page}, status=page.status
    )
    if page.refusal and page.refusal.wait_s:
        response.headers["Retry-After"] = str(page.refusal.wait_s)
    return theme.remember(request, response)


def wanted(answer_id: str) -> SharedAnswer:
    row = rows.find(answer_id)
    if row is None:
        raise Http404(_("No answer is kept here; it may have been deleted or expired."))
    return row


def require_rights(request: HttpRequest) -> None:
    if not rows.is_on():
        raise Http404(_("This site keeps no answers."))
    if not rows.may_keep(request):
        raise PermissionDenied


def unlisted(response: HttpResponse) -> HttpResponse:
    """Who has the address may read it, and no search engine is to give it away.

    Not in robots.txt: what a crawler may not ask for, it cannot be told of.
    """
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response
