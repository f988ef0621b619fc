"""Builds, installations, workers, runs and evidence in the admin, mostly read-only."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _, ngettext

from runner import access
from runner.evidence import origins
from runner.models import Build, Device, Evidence, Installation, Run, Worker
from runner.runs import backfill, host_gpus, jobs

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


def pretty(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return format_html(JSON_BLOCK, text)


class NamedValuesFilter(admin.AllValuesFieldListFilter):
    """The values that occur, with a label for the empty one."""

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            yield {**choice, "display": choice["display"] or _("none")}


class InstallationInline(admin.TabularInline):
    model = Installation
    template = "admin/readonly_inline.html"
    extra = 0
    can_delete = False
    fields = readonly_fields = ("host", "interpreter", "managed", "state", "probed_at")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class RunnableFilter(admin.SimpleListFilter):
    title = _("can run")
    parameter_name = "runnable"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("has an installation that is ready")), ("no", _("has none"))]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Build]
    ) -> QuerySet[Build]:
        ready = Build.objects.runnable().values("pk")
        if self.value() == "yes":
            return queryset.filter(pk__in=ready)
        return queryset.exclude(pk__in=ready) if self.value() == "no" else queryset


@admin.register(Build)
class BuildAdmin(KeptAdmin):
    list_display = (
        *("slug", "raw", "cuda", "cudnn", "python", "platform"),
        *("ready", "results", "first_seen"),
    )
    list_filter = (
        RunnableFilter,
        *((name, NamedValuesFilter) for name in ("platform", "python", "cuda")),
    )
    search_fields = ("slug", "raw", "git")
    inlines = (InstallationInline,)
    actions = ("fill_cells",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Build]:
        ready = Q(installations__state=Installation.State.READY)
        rows: QuerySet[Build] = super().get_queryset(request)
        return rows.annotate(
            ready_count=Count("installations", filter=ready, distinct=True),
            evidence_count=Count("evidence", distinct=True),
        )

    @admin.display(description=_("Ready installations"), ordering="ready_count")
    def ready(self, build: Build) -> int:
        return int(getattr(build, "ready_count", 0))

    @admin.display(description=_("Evidence"), ordering="evidence_count")
    def results(self, build: Build) -> int:
        return int(getattr(build, "evidence_count", 0))

    @admin.action(
        description=_("Run every repro that has no result on these builds"),
        permissions=["operate"],
    )
    def fill_cells(self, request: HttpRequest, queryset: QuerySet[Build]) -> None:
        """As `manage.py matrix --no-wait`: queued behind all clicks."""
        cells = backfill.cells(builds=set(queryset.values_list("slug", flat=True)))
        filler = backfill.Filler(cells, again=False, window=len(cells))
        refused = [result for result in filler.step() if result.refused]
        count = len(filler.active)
        text = ngettext("%(n)d run is queued.", "%(n)d runs are queued.", count)
        self.message_user(request, text % {"n": count})
        for detail in sorted({str(result.refused) for result in refused}):
            self.message_user(request, detail, messages.WARNING)


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
        "name",
        "host",
        "tier",
        "slots",
        "paused",
        "draining",
        "started_at",
        "last_seen",
    )
    list_filter = ("paused", "draining", ("tier", NamedValuesFilter), "host")
    search_fields = ("name", "host")
    actions = ("pause", "resume", "drain")

    @admin.action(
        description=_("Pause: they finish what they have and start nothing more"),
        permissions=["operate"],
    )
    def pause(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        count = queryset.update(paused=True)
        self.message_user(request, _("Workers paused: %(n)d") % {"n": count})

    @admin.action(description=_("Resume"), permissions=["operate"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        count = queryset.update(paused=False)
        self.message_user(request, _("Workers resumed: %(n)d") % {"n": count})

    @admin.action(
        description=_("Drain: they finish what they have and end"),
        permissions=["operate"],
    )
    def drain(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        count = queryset.update(draining=True)
        self.message_user(request, _("Workers draining: %(n)d") % {"n": count})


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    """Users who may change a device can pause it and lift its quarantine."""

    list_display = ("uuid", "name", "host", "state", "reason", "driver", "last_seen")
    list_filter = ("state", "host", ("name", NamedValuesFilter))
    search_fields = ("uuid", "name", "host", "reason")
    actions = ("pause", "use_again")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("runner.change_device")

    @admin.action(
        description=_("Pause: no further run gets these GPUs"), permissions=["operate"]
    )
    def pause(self, request: HttpRequest, queryset: QuerySet[Device]) -> None:
        count = host_gpus.pause(queryset)
        self.message_user(request, _("GPUs paused: %(n)d") % {"n": count})

    @admin.action(
        description=_("Use again: lift pause and quarantine"), permissions=["operate"]
    )
    def use_again(self, request: HttpRequest, queryset: QuerySet[Device]) -> None:
        count = host_gpus.lift(queryset)
        self.message_user(request, _("GPUs in use again: %(n)d") % {"n": count})


class JobAdmin(KeptAdmin):
    """Rows of the queue: looked at, cancelled, never edited."""

    date_hierarchy = "created_at"
    actions = ("cancel",)

    def stop(self, row: Any) -> bool:
        return jobs.cancel(row)

    def cancelled(self, count: int) -> str:
        return ngettext("%(n)d job is cancelled.", "%(n)d jobs are cancelled.", count)

    @admin.action(
        description=_("Cancel: queued ones at once, running ones by their worker"),
        permissions=["operate"],
    )
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        done = [self.stop(row) for row in queryset]
        count = sum(done)
        self.message_user(request, self.cancelled(count) % {"n": count})
        if count < len(done):
            over = _("Those that were over already stay as they are: %(n)d")
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


@admin.register(Evidence)
class EvidenceAdmin(KeptAdmin):
    """Immutable, because verdicts rest on it."""

    list_display = (
        *("short", "record", "repro_name", "build", "device_class"),
        *("verdict", "origin", "vouched", "withdrawn", "started_at", "added_at"),
    )
    list_filter = (
        *("verdict", "origin", "vouched", "withdrawn"),
        *("device_class", "started_at"),
    )
    actions = ("confirm_sent",)
    list_select_related = ("record", "build")
    search_fields = ("digest", "repro_digest", "record__id", "build__slug")
    date_hierarchy = "started_at"
    exclude = ("body",)
    readonly_fields = ("whole",)

    @admin.display(description=_("Digest"), ordering="digest")
    def short(self, evidence: Evidence) -> str:
        return evidence.short

    def has_confirm_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("runner.confirm_evidence")

    @admin.action(
        description=_("Confirm what was sent: it may settle verdicts"),
        permissions=["confirm"],
    )
    def confirm_sent(self, request: HttpRequest, queryset: QuerySet[Evidence]) -> None:
        count = origins.confirm(queryset)
        self.message_user(request, _("Evidence confirmed: %(n)d") % {"n": count})

    @admin.display(description=_("Evidence as it was reported"))
    def whole(self, evidence: Evidence) -> str:
        return pretty(evidence.body)
