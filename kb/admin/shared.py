"""Kept answers in the admin: to be looked at and deleted, never changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from kb.admin.admin import name_columns
from kb.models import SharedAnswer

name_columns(
    SharedAnswer,
    {
        "id": _("ID"),
        "log": _("Lines"),
        "env": _("Versions"),
        "created_at": _("Kept on"),
        "expires_at": _("Expires"),
    },
)


@admin.register(SharedAnswer)
class SharedAnswerAdmin(admin.ModelAdmin):
    list_display = ("id", "created_at", "expires_at")
    date_hierarchy = "created_at"
    fields = ("id", "page", "created_at", "expires_at", "log", "env")
    readonly_fields = fields

    @admin.display(description=_("Page"))
    def page(self, row: SharedAnswer) -> str:
        return format_html('<a href="{0}">{0}</a>', row.get_absolute_url())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
