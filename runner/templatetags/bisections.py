"""Template tags of bisections: the form of a record."""

from __future__ import annotations

from typing import Any

from django import template

from kb.models import Record
from runner.pages.bisections import form
from runner.pages.record.run_panel import RunPanel

register = template.Library()


@register.inclusion_tag("runner/_bisection_form.html", takes_context=True)
def bisection_form(
    context: template.Context, record: Record, panel: RunPanel | None
) -> dict[str, Any]:
    """What starts a bisection; nothing for a record whose repros judge no build."""
    groups = form.groups(panel, context["request"]) if panel else []
    token = context.get("csrf_token")
    return {"groups": groups, "record": record, "csrf_token": token}
