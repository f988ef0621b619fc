"""Reads a repro's header and checks for the knowledge base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from kb.choices import PARAMETERS
from kb.publishing.loading import ReproRefused
from kb.records.files import ReproFacts
from portable import harness
from runner.evidence.observed import unreported


def unnamed(header: harness.Header) -> Iterator[str]:
    """Parameters that pages have no words for."""
    for name in header.parameters:
        if name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            yield f"tool.doesitnan.parameters.{name}: must be one of {known}"


def inspect(source: str) -> ReproFacts:
    """Header and checks of a source, which is not executed. Raises ReproRefused."""
    try:
        header, checks = harness.read_repro(source)
    except harness.ContractError as error:
        raise ReproRefused(error.errors) from error
    problems = [*unreported(header, source), *unnamed(header)]
    if problems:
        raise ReproRefused(problems)
    return ReproFacts(
        fidelity=header.fidelity,
        device=header.device,
        header=json.loads(harness.dumps(asdict(header))),
        checks=checks,
    )
