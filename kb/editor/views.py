"""The form of a record, its preview, and an old revision brought back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from kb.admin import preview
from kb.admin.admin import behind_text
from kb.choices import Publication
from kb.editor.form import EditForm, with_one_more
from kb.models import Record
from kb.publishing import editing

EDIT = "kb.change_record"


@never_cache
@login_required
@permission_required(EDIT, raise_exception=True)
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, record_id: str) -> HttpResponse:
    record = get_object_or_404(Record, pk=record_id)
    if request.method != "POST":
        return opened(request, record)
    if "more" in request.POST or "draft" in request.POST:
        sent = with_one_more(request.POST, request.POST.get("more", ""))
        return show(request, EditForm(sent, instance=record))
    form = EditForm(request.POST, instance=record)
    if not form.is_valid():
        return show(request, form, status=422)
    return saved(request, form)


def opened(request: HttpRequest, record: Record) -> HttpResponse:
    """The stored record, or what an old revision of it would bring back."""
    number = request.GET.get("revision", "")
    if not number:
        return show(request, EditForm(instance=record))
    rows = record.history.filter(history_id=number if number.isdigit() else None)
    old = get_object_or_404(rows)
    form = EditForm(instance=editing.brought_back(record, old))
    return show(request, form, back_to=old.revision)


def show(
    request: HttpRequest, form: EditForm, status: int = 200, back_to: int = 0
) -> HttpResponse:
    context = {"form": form, "record": form.instance, "back_to": back_to}
    return render(request, "kb/edit.html", context, status=status)


def saved(request: HttpRequest, form: EditForm) -> HttpResponse:
    record = form.instance
    if form.save_as_edited():
        text = _("Revision %d is saved.") % record.revision
        messages.success(request, text)
    else:
        messages.warning(request, _("Nothing changed, so there is no new revision."))
    for lang in record.outdated:
        messages.warning(request, behind_text(record, lang))
    # A draft has no page yet.
    is_draft = record.publication == Publication.DRAFT
    return redirect("record-edit", record.id) if is_draft else redirect(record)


@login_required
@permission_required(EDIT, raise_exception=True)
@require_POST
def show_preview(request: HttpRequest, record_id: str) -> HttpResponse:
    """The prose of the form as the page would have it; nothing is stored."""
    sections = preview.build(request.POST.dict())
    context = {"sections": sections, "record_id": record_id}
    return render(request, "kb/edit_preview.html", context)
