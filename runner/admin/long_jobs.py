"""Sweeps and bisections in the admin: looked at, cancelled, never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from runner.admin.admin import JobAdmin, NamedValuesFilter, pretty
from runner.bisecting import queue
from runner.models import Bisection, Sweep

SEARCHED: tuple[str, ...] = ("id", "record__id", "worker", "reason")


@admin.register(Sweep)
class SweepAdmin(JobAdmin):
    """Evidence once it has a digest."""

    list_display = (
        *("id", "record", "repro_name", "build", "device", "over", "cells_done"),
        *("state", "reason", "origin", "withdrawn", "worker", "created_at"),
    )
    list_filter = (
        *("state", "device", "withdrawn", "created_at"),
        *(("origin", NamedValuesFilter), ("worker", NamedValuesFilter)),
    )
    search_fields = (*SEARCHED, "build__slug", "digest")
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


@admin.register(Bisection)
class BisectionAdmin(JobAdmin):
    list_display = (
        *("id", "record", "repro_name", "device", "good", "bad", "install"),
        *("before", "after", "state", "phase", "reason", "worker", "created_at"),
    )
    list_filter = (
        *("state", "device", "install", "created_at"),
        ("worker", NamedValuesFilter),
    )
    search_fields = (*SEARCHED, "good", "bad")
    exclude = ("builds", "offered", "installed", "steps", "found")
    readonly_fields = ("shown_builds", "shown_steps", "shown_found")

    def stop(self, row: Any) -> bool:
        return queue.cancel(row)

    @admin.display(description=_("Before the turn"))
    def before(self, row: Bisection) -> str:
        return str(row.found.get("before", "")) or "-"

    @admin.display(description=_("After the turn"))
    def after(self, row: Bisection) -> str:
        return str(row.found.get("after", "")) or "-"

    @admin.display(description=_("Builds and releases between the ends"))
    def shown_builds(self, row: Bisection) -> str:
        found = {"builds": row.builds, "offered": row.offered}
        return pretty({**found, "installed": row.installed})

    @admin.display(description=_("Steps"))
    def shown_steps(self, row: Bisection) -> str:
        return pretty(row.steps)

    @admin.display(description=_("What was found"))
    def shown_found(self, row: Bisection) -> str:
        return pretty(row.found)
