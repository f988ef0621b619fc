"""API tokens in the admin: created, shown once, deleted; keys: added, revoked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _, gettext_lazy as _lazy

from runner.evidence.signing import keys, sshsig
from runner.models import SigningKey
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


class Unchanged(admin.ModelAdmin):
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may make or delete some; "view" alone came with groups of earlier."""
        return self.has_add_permission(request) or self.has_delete_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Token)
class TokenAdmin(Unchanged):
    """A token is never changed, but replaced: create another and delete the old one."""

    form = TokenForm
    list_display = ("name", "start", "user", "scopes", "expires_at", "last_used_at")
    list_filter = ("expires_at",)
    search_fields = ("name", "user__username")
    readonly_fields = ("start", "created_at", "last_used_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        editable = ["name", "user", "scopes", "expires_at"]
        return [*editable, *self.readonly_fields] if obj else editable

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


class SigningKeyForm(forms.ModelForm):
    public = forms.CharField(
        max_length=sshsig.MAX_KEY_CHARS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_lazy("The line of a .pub file."),
    )

    class Meta:
        model = SigningKey
        fields = ("name", "public")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        try:
            key = sshsig.read_key(data.get("public", ""))
            keys.refuse_known(key)
        except (sshsig.BadKey, sshsig.NoTool) as error:
            self.add_error("public", str(error))
        return data


@admin.register(SigningKey)
class SigningKeyAdmin(Unchanged):
    """A key is never changed or deleted: what it signed is told by it."""

    form = SigningKeyForm
    list_display = ("name", "fingerprint", "added_at", "revoked_at")
    search_fields = ("name", "fingerprint")
    readonly_fields = ("fingerprint", "added_at", "revoked_at")
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return ["name", "public", *(self.readonly_fields if obj else ())]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(
        self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool
    ) -> None:
        obj.pk = keys.register(obj.name, form.cleaned_data["public"]).pk

    @admin.action(description=_lazy("Revoke these keys"), permissions=["add"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[SigningKey]) -> None:
        for key in queryset:
            keys.revoke(key.fingerprint)
