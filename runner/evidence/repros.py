"""Reads a repro's header and checks for the knowledge base."""

from __future__ import annotations

import json
from dataclasses import asdict

from kb.publishing.loading import ReproRefused
from kb.records.files import ReproFacts
from runner import harness
from runner.evidence.observed import unreported


def inspect(source: str) -> ReproFacts:
    """Header and checks of a source, which is not executed. Raises ReproRefused."""
    try:
        header, checks = harness.read_repro(source)
    except harness.ContractError as error:
        raise ReproRefused(error.errors) from error
    problems = unreported(header, source)
    if problems:
        raise ReproRefused(problems)
    return ReproFacts(
        fidelity=header.fidelity,
        device=header.device,
        header=json.loads(harness.dumps(asdict(header))),
        checks=checks,
    )
