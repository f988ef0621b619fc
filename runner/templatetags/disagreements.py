"""Disagreements between origins, on the pages of records and evidence."""

from __future__ import annotations

from typing import Any

from django import template

from kb.languages import current_lang
from kb.models import Record
from runner.evidence.disagreement import disagreements
from runner.models import Evidence

register = template.Library()


@register.inclusion_tag("runner/_disagreement.html")
def disagreement_notice(
    record: Record | None, evidence: Evidence | None = None
) -> dict[str, Any]:
    """Those of a record; with `evidence` only where its own build is in question."""
    items = disagreements(record, evidence) if record else []
    lang = current_lang()
    return {"disagreements": [(item, item.badges(lang)) for item in items]}
