"""Builds, workers, jobs, evidence and tokens in the admin, mostly read-only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _, ngettext

from kb.admin.admin import ReadOnlyInline
from kb.choices import OUR_ORIGINS
from kb.findings import writing
from runner import access
from runner.models import Build, Device, Evidence, Installation, Run, Sweep, Worker
from runner.models.token import Token
from runner.runs import host_gpus, jobs

JSON_BLOCK = '<pre tabindex="0" lang="en">{}</pre>'


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows written by workers and commands: edits by hand would only falsify them."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(access.OPERATE)


class KeptAdmin(ReadOnlyAdmin):
    """Rows that others refer to permanently: they cannot be deleted by hand."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def changing(
    description: Any, said: Any, change: Callable[[QuerySet[Any]], int]
) -> Callable[..., None]:
    """An action of operators; `change` says how many rows it changed."""

    @admin.action(description=description, permissions=["operate"])
    def act(self: Any, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self.message_user(request, said % {"n": change(queryset)})

    return act


def pretty(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return format_html(JSON_BLOCK, text)


class NamedValuesFilter(admin.AllValuesFieldListFilter):
    """The values that occur, with a label for the empty one."""

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            yield {**choice, "display": choice["display"] or _("none")}


class InstallationInline(ReadOnlyInline):
    model = Installation
    fields = readonly_fields = ("host", "interpreter", "managed", "state", "probed_at")


@admin.register(Build)
class BuildAdmin(KeptAdmin):
    list_display = ("slug", "raw", "cuda", "cudnn", "python", "platform", "first_seen")
    list_filter = (
        "installations__state",
        *((name, NamedValuesFilter) for name in ("platform", "python", "cuda")),
    )
    search_fields = ("slug", "raw", "git")
    inlines = (InstallationInline,)


@admin.register(Installation)
class InstallationAdmin(ReadOnlyAdmin):
    list_display = ("build", "host", "state", "managed", "interpreter", "probed_at")
    list_filter = ("state", "managed", "host")
    list_select_related = ("build",)
    search_fields = ("build__slug", "interpreter", "host")


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Users who may change a worker can pause, resume and drain it."""

    list_display = (
        *("name", "host", "tier", "slots", "paused", "draining"),
        *("started_at", "last_seen"),
    )
    list_filter = ("paused", "draining", ("tier", NamedValuesFilter), "host")
    search_fields = ("name", "host")
    actions = ("pause", "resume", "drain")

    pause = changing(
        _("Pause: finish current runs and start no more"),
        _("Workers paused: %(n)d"),
        lambda workers: workers.update(paused=True),
    )
    resume = changing(
        _("Resume"),
        _("Workers resumed: %(n)d"),
        lambda workers: workers.update(paused=False),
    )
    drain = changing(
        _("Drain: finish current runs, then stop"),
        _("Workers draining: %(n)d"),
        lambda workers: workers.update(draining=True),
    )


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    """Users who may change a device can pause it and lift its quarantine."""

    list_display = ("uuid", "name", "host", "state", "reason", "driver", "last_seen")
    list_filter = ("state", "host", ("name", NamedValuesFilter))
    search_fields = ("uuid", "name", "host", "reason")
    actions = ("pause", "use_again")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("runner.change_device")

    pause = changing(
        _("Pause: give these GPUs no further runs"),
        _("GPUs paused: %(n)d"),
        host_gpus.pause,
    )
    use_again = changing(
        _("Use again: lift pause and quarantine"),
        _("GPUs in use again: %(n)d"),
        host_gpus.lift,
    )


class JobAdmin(KeptAdmin):
    """Rows of the queue: looked at, cancelled, never edited."""

    date_hierarchy = "created_at"
    actions = ("cancel",)

    def cancelled(self, count: int) -> str:
        return ngettext("%(n)d job is cancelled.", "%(n)d jobs are cancelled.", count)

    @admin.action(
        description=_("Cancel: queued ones at once, running ones by their worker"),
        permissions=["operate"],
    )
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        done = [jobs.cancel(row) for row in queryset]
        count = sum(done)
        self.message_user(request, self.cancelled(count) % {"n": count})
        if count < len(done):
            over = _("Already finished and left unchanged: %(n)d")
            left = over % {"n": len(done) - count}
            self.message_user(request, left, messages.WARNING)


@admin.register(Run)
class RunAdmin(JobAdmin):
    list_display = (
        *("id", "repro", "build", "device", "state", "verdict", "reason"),
        *("worker", "priority", "created_at"),
    )
    list_filter = (
        *("state", "verdict", "device", "priority", "created_at"),
        ("worker", NamedValuesFilter),
    )
    list_select_related = ("repro", "build")
    search_fields = ("id", "repro__record__id", "build__slug", "worker", "reason")

    def cancelled(self, count: int) -> str:
        return ngettext("%(n)d run is cancelled.", "%(n)d runs are cancelled.", count)


class SentAdmin(KeptAdmin):
    """Nothing follows of what somebody sent, so that may be deleted."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed = admin.ModelAdmin.has_delete_permission(self, request, obj)
        return allowed and (obj is None or obj.is_sent)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_queryset(request, self.model.objects.filter(pk=obj.pk))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        with transaction.atomic():
            writing.show_anew()
            queryset.exclude(origin__in=OUR_ORIGINS).delete()


@admin.register(Evidence)
class EvidenceAdmin(SentAdmin):
    """Immutable, because verdicts rest on it."""

    list_display = (
        *("short", "record", "repro_name", "build_slug", "device_class"),
        *("verdict", "origin", "started_at", "added_at"),
    )
    list_filter = ("verdict", "origin", "device_class", "started_at")
    list_select_related = ("record", "build")
    search_fields = ("digest", "repro_digest", "record__id", "build_slug")
    date_hierarchy = "started_at"
    exclude = ("body",)
    readonly_fields = ("whole",)

    @admin.display(description=_("Digest"), ordering="digest")
    def short(self, evidence: Evidence) -> str:
        return evidence.short

    @admin.display(description=_("Evidence as it was reported"))
    def whole(self, evidence: Evidence) -> str:
        return pretty(evidence.body)


@admin.register(Sweep)
class SweepAdmin(SentAdmin, JobAdmin):
    """Evidence once it has a digest."""

    list_display = (
        *("id", "record", "repro_name", "build", "device", "over", "cells_done"),
        *("state", "reason", "origin", "worker", "created_at"),
    )
    list_filter = (
        *("state", "device", "created_at"),
        *(("origin", NamedValuesFilter), ("worker", NamedValuesFilter)),
    )
    search_fields = (
        *("id", "record__id", "worker", "reason", "build__slug", "digest"),
    )
    exclude = ("axes", "names", "cells", "same")
    readonly_fields = ("over", "cells_done", "shown_axes", "shown_cells", "shown_same")

    @admin.display(description=_("Parameters"))
    def over(self, sweep: Sweep) -> str:
        return " × ".join(sweep.names)

    @admin.display(description=_("Cells done"))
    def cells_done(self, sweep: Sweep) -> int:
        return len(sweep.cells)

    @admin.display(description=_("Values of the parameters"))
    def shown_axes(self, sweep: Sweep) -> str:
        return pretty(sweep.ordered_axes)

    @admin.display(description=_("Cells"))
    def shown_cells(self, sweep: Sweep) -> str:
        return pretty(sweep.cells)

    @admin.display(description=_("The same in all cells"))
    def shown_same(self, sweep: Sweep) -> str:
        return pretty(sweep.same)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """`manage.py tokens` makes them and shows the secret; here they can be ended."""

    list_display = ("name", "start", "user", "scopes", "expires_at", "last_used_at")
    list_filter = ("expires_at",)
    search_fields = ("name", "user__username")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may delete some; "view" alone came with groups of earlier."""
        return self.has_delete_permission(request)
