"""Which sweeps a kit makes: those made before, else of what a repro declares."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kb.choices import OUR_ORIGINS
from kb.models import Repro
from portable import harness
from runner.models import Run, Sweep

# As the object of a sweep has them: {"name": …, "values": […]} or {…, "between": […]}.
Axes = list[dict[str, Any]]
MOST_AXES = 2


def of_repros(repros: Iterable[Repro]) -> dict[int, list[Axes]]:
    """By the id of the repro; those without parameters have none."""
    known = made_before()
    return {
        repro.pk: known.get(repro.digest) or declared(repro.source) for repro in repros
    }


def made_before() -> dict[str, list[Axes]]:
    """By digest, the axes of sweeps that this site or its repository has."""
    found: dict[str, dict[str, Axes]] = defaultdict(dict)
    rows = Sweep.objects.filter(origin__in=OUR_ORIGINS, state=Run.State.FINISHED)
    for sweep in rows.exclude(digest="").order_by("created_at"):
        axes = [{"name": name, **axis} for name, axis in sweep.ordered_axes.items()]
        found[sweep.repro_digest][json.dumps(axes)] = axes
    return {digest: list(axes.values()) for digest, axes in found.items()}


def declared(source: str) -> list[Axes]:
    """One sweep over up to two parameters that are choices, else over one number."""
    header = harness.parse_header(source)
    choices: Axes = [
        {"name": name, "values": list(facts["choices"])}
        for name, facts in header.parameters.items()
        if "choices" in facts
    ]
    if choices:
        return [choices[:MOST_AXES]]
    for name, facts in header.parameters.items():
        ends = sorted({facts[key] for key in ("min", "default", "max")})
        values = [value for value in ends if fits(header, name, value)]
        return [[{"name": name, "values": values}]]
    return []


def fits(header: harness.Header, name: str, value: Any) -> bool:
    """Whether the repro allows a value, beside its own memory and time."""
    try:
        harness.choose(header, {name: value})
    except harness.ParameterError:
        return False
    return True
