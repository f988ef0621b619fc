"""Template tags of sweeps: the maps of a record."""

from __future__ import annotations

from typing import Any

from django import template

from kb.models import Record
from runner.pages.record.run_panel import RunPanel
from runner.pages.sweeps import form, maps as sweep_maps

register = template.Library()
# Maps of a record that are open at once; anybody's sweep adds one.
OPEN_MAPS = 3


@register.inclusion_tag("runner/_sweeps.html")
def sweeps_of(record: Record, torch: str) -> dict[str, Any]:
    """Where the bug happens over values of its parameters; nothing without sweeps."""
    maps = sweep_maps.of_record(record, torch)
    return {"maps": maps[:OPEN_MAPS], "more": maps[OPEN_MAPS:], "record": record}


@register.inclusion_tag("runner/_sweep_form.html", takes_context=True)
def sweep_form(
    context: template.Context, record: Record, panel: RunPanel | None
) -> dict[str, Any]:
    """What starts a sweep; nothing without parameters or a build, or for a GPU."""
    groups = form.groups(panel.repros) if panel and panel.builds else []
    token = context.get("csrf_token")
    return {"groups": groups, "panel": panel, "record": record, "csrf_token": token}
