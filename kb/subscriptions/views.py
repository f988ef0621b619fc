"""What an account watches: shown, added to, and removed."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from kb.subscriptions import page
from kb.subscriptions.page import WatchForm


def account(request: HttpRequest) -> User:
    """Who is logged in, which login_required has seen to."""
    return get_object_or_404(User, pk=request.user.pk)


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def subscriptions(request: HttpRequest) -> HttpResponse:
    user = account(request)
    if request.method != "POST":
        return show(request, page.build(request, user))
    form = WatchForm(request.POST)
    if not (form.is_valid() and page.watch(user, form)):
        return show(request, page.build(request, user, form), status=422)
    messages.success(request, _("You watch it from now on."))
    return redirect("subscriptions")


def show(
    request: HttpRequest, built: page.WatchPage, status: int = 200
) -> HttpResponse:
    context = {"page": built}
    return render(request, "kb/subscriptions/page.html", context, status=status)


@never_cache
@login_required
@require_POST
def unsubscribe(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Nobody else's: of those this account knows nothing."""
    get_object_or_404(page.of(account(request)), pk=subscription_id).delete()
    messages.success(request, _("You no longer watch it."))
    return redirect("subscriptions")
