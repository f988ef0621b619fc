"""Template tags of sweeps: the maps of a record."""

from __future__ import annotations

from typing import Any

from django import template

from kb.models import Record
from runner.pages.record import sweep_maps

register = template.Library()


@register.inclusion_tag("runner/_sweeps.html")
def sweeps_of(record: Record, torch: str) -> dict[str, Any]:
    """Where the bug happens over values of its parameters; nothing without sweeps."""
    return {"maps": sweep_maps.of_record(record, torch), "record": record}
