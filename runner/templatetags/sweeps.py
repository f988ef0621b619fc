"""Template tags of sweeps: the maps of a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import template

from kb.models import Record
from runner.pages.record.run_panel import RunPanel
from runner.pages.sweeps import form, maps as sweep_maps
from runner.pages.sweeps.maps import SweepMap

register = template.Library()
# Maps of a record that are open at once; anybody's sweep adds one.
OPEN_MAPS = 3


@dataclass(frozen=True)
class Maps:
    """Those that are open, and those that are folded."""

    shown: list[SweepMap]
    more: list[SweepMap]


@register.simple_tag
def sweep_maps_of(record: Record, torch: str) -> Maps:
    """Where the bug happens over values of its parameters; empty without sweeps."""
    maps = sweep_maps.of_record(record, torch)
    return Maps(maps[:OPEN_MAPS], maps[OPEN_MAPS:])


@register.inclusion_tag("runner/_sweep_form.html", takes_context=True)
def sweep_form(
    context: template.Context, record: Record, panel: RunPanel | None
) -> dict[str, Any]:
    """What starts a sweep; nothing without parameters or a build, or for a GPU."""
    groups = form.groups(panel.repros) if panel and panel.builds else []
    token = context.get("csrf_token")
    return {"groups": groups, "panel": panel, "record": record, "csrf_token": token}
