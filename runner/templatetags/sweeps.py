"""Template tags of sweeps: the form of a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django import template

from kb.findings.results import cells, showing
from kb.models import Record
from runner.pages.record.run_panel import RunPanel
from runner.pages.sweeps import form

register = template.Library()


@register.inclusion_tag("runner/_sweep_form.html", takes_context=True)
def sweep_form(
    context: template.Context, record: Record, panel: RunPanel | None
) -> dict[str, Any]:
    """What starts a sweep; nothing without parameters or a build, or for a GPU."""
    groups = form.groups(panel.repros) if panel and panel.builds else []
    if panel and groups:
        panel = replace(panel, chosen=affected(record, panel))
    token = context.get("csrf_token")
    return {"groups": groups, "panel": panel, "record": record, "csrf_token": token}


def affected(record: Record, panel: RunPanel) -> str:
    """The newest build of this site on which runs show the bug, else the chosen one."""
    bad = showing(cells(record.findings.all()))
    here = [row.build.slug for row in panel.builds if not row.refusal]
    return next((slug for slug in here if slug in bad), panel.chosen)
