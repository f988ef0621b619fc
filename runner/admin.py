"""Builds, installations, workers, runs and evidence: to look at, hardly to edit."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from runner.models import Build, Evidence, Installation, Run, Worker


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows that the machinery writes; a hand would only make them false."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class InstallationInline(admin.TabularInline):
    model = Installation
    extra = 0
    can_delete = False
    fields = readonly_fields = ("host", "interpreter", "managed", "state", "probed_at")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Build)
class BuildAdmin(ReadOnlyAdmin):
    list_display = ("slug", "raw", "cuda", "cudnn", "python", "platform", "first_seen")
    search_fields = ("slug", "raw", "git")
    inlines = (InstallationInline,)


@admin.register(Installation)
class InstallationAdmin(ReadOnlyAdmin):
    list_display = ("build", "host", "state", "managed", "interpreter", "probed_at")
    list_filter = ("state", "host")
    list_select_related = ("build",)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ("name", "host", "tier", "slots", "started_at", "last_seen")


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "repro", "build", "device", "state", "verdict", "created_at")
    list_filter = ("state", "verdict", "device")
    list_select_related = ("repro", "build")
    search_fields = ("id", "repro__record__id", "build__slug")
    date_hierarchy = "created_at"


@admin.register(Evidence)
class EvidenceAdmin(ReadOnlyAdmin):
    list_display = ("short", "record", "build", "verdict", "origin", "started_at")
    list_filter = ("verdict", "origin")
    list_select_related = ("record", "build")
    search_fields = ("digest", "record__id", "build__slug")
