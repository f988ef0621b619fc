"""Webhooks and what they were told, in the admin: to be looked at only.

`manage.py webhooks` makes and removes them, so that no secret passes through a page.
"""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from kb.admin.admin import name_columns
from kb.models import Delivery, Webhook
from runner.admin.admin import KeptAdmin

name_columns(
    Webhook,
    {"name": _("Name"), "created_at": _("Created")},
    (_("webhook"), _("webhooks")),
)
name_columns(
    Delivery,
    {
        "change": _("Change"),
        "user": _("Account"),
        "webhook": _("Webhook"),
        "state": _("State"),
        "attempts": _("Attempts"),
        "error": _("Error"),
        "created_at": _("Created"),
        "next_at": _("Next attempt"),
        "ended_at": _("Ended"),
    },
    (_("message"), _("messages")),
)


@admin.register(Webhook)
class WebhookAdmin(KeptAdmin):
    """Without the secret, and without the address, which may hold one."""

    list_display = ("name", "listens_to", "created_at")
    fields = readonly_fields = list_display

    @admin.display(description=_("Listens to"))
    def listens_to(self, row: Webhook) -> str:
        return ", ".join(map(str, row.subscriptions.all()))


@admin.register(Delivery)
class DeliveryAdmin(KeptAdmin):
    list_display = (
        "change",
        "webhook",
        "user",
        "state",
        "attempts",
        "error",
        "next_at",
    )
    list_filter = ("state", "webhook")
    list_select_related = ("change", "webhook", "user")
    fields = (
        *("id", "change", "webhook", "user", "state", "attempts", "error"),
        *("created_at", "next_at", "ended_at"),
    )
    readonly_fields = fields
