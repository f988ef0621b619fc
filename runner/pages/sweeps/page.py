"""A sweep's page: its map as far as it has come, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest
from django.utils.translation import gettext as _, ngettext

from kb.models import Record
from runner import access
from runner.models import Run, Sweep
from runner.pages.runs import waits
from runner.pages.sweeps import maps
from runner.pages.sweeps.maps import SweepMap
from runner.sweeps.cells import most_cells


@dataclass(frozen=True)
class SweepPage:
    """`most`: the cells of a grid; 0 where a boundary is looked for, nobody knows."""

    sweep: Sweep
    record: Record
    map: SweepMap | None
    most: int
    # Why no worker takes it now; "" where one does, or it waits no more.
    unserved: str
    may_cancel: bool

    @property
    def done(self) -> int:
        return len(self.sweep.cells)

    @property
    def name(self) -> str:
        names = {
            "id": self.record.id,
            "names": " × ".join(self.sweep.names),
            "raw": self.sweep.raw,
        }
        return _("%(id)s over %(names)s on torch %(raw)s") % names

    @property
    def progress(self) -> str:
        if not self.most:
            return ngettext("%d cell", "%d cells", self.done) % self.done
        counted = ngettext(
            "%(n)d of %(most)d cell", "%(n)d of %(most)d cells", self.most
        )
        return counted % {"n": self.done, "most": self.most}

    @property
    def title(self) -> str:
        """What is going on, or how it ended."""
        titles = {
            Run.State.QUEUED: _("Waiting for a worker: %s"),
            Run.State.RUNNING: _("Sweeping: %s"),
            Run.State.CANCELLED: _("Cancelled after %s"),
        }
        ended = _("Ended early after %s") if self.sweep.reason else _("Swept: %s")
        return titles.get(Run.State(self.sweep.state), ended) % self.progress


def find(sweep_id: UUID) -> Sweep | None:
    rows = Sweep.objects.select_related("build", "record")
    return rows.filter(pk=sweep_id, record__in=Record.objects.visible()).first()


def build(sweep: Sweep, request: HttpRequest) -> SweepPage:
    axes = sweep.ordered_axes
    is_grid = all("values" in axis for axis in axes.values())
    return SweepPage(
        sweep=sweep,
        record=sweep.record,
        map=maps.map_of(sweep.record, [sweep]) if sweep.cells else None,
        most=most_cells(axes) if is_grid else 0,
        unserved=waits.unserved(sweep.build, sweep.device)
        if sweep.build and sweep.state == Run.State.QUEUED
        else "",
        may_cancel=not sweep.is_over and access.may_cancel(request, sweep),
    )
