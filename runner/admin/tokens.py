"""API tokens in the admin: created, shown once, deleted."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from runner.models.token import Token


class TokenForm(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        choices=Token.Scope.choices,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = Token
        fields = ("name", "user", "scopes", "expires_at")


@admin.register(Token)
class TokenAdmin(admin.ModelAdmin):
    """A token is never changed, but replaced: create another and delete the old one."""

    form = TokenForm
    list_display = ("name", "start", "user", "scopes", "expires_at", "last_used_at")
    list_filter = ("expires_at",)
    search_fields = ("name", "user__username")
    readonly_fields = ("start", "created_at", "last_used_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        editable = ["name", "user", "scopes", "expires_at"]
        return [*editable, *self.readonly_fields] if obj else editable

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may make or delete some; "view" alone came with groups of earlier."""
        return self.has_add_permission(request) or self.has_delete_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(
        self, request: HttpRequest, obj: Token, form: forms.ModelForm, change: bool
    ) -> None:
        data = form.cleaned_data
        token, secret = Token.issue(
            data["name"], data["user"], data["scopes"], data["expires_at"]
        )
        obj.pk = token.pk
        message = _("The token, shown this once: %s") % secret
        messages.warning(request, message)
