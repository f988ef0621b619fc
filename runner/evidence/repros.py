"""Reads a repro's header and checks for the knowledge base."""

from __future__ import annotations

import json
from dataclasses import asdict

from kb.publishing.loading import ReproRefused
from kb.records.files import ReproFacts
from runner import harness


def inspect(source: str) -> ReproFacts:
    """Parse header and checks without running the source. Raises ReproRefused."""
    try:
        header, checks = harness.read_repro(source)
    except harness.ContractError as error:
        raise ReproRefused(error.errors) from error
    return ReproFacts(
        fidelity=header.fidelity,
        device=header.device,
        header=json.loads(harness.dumps(asdict(header))),
        checks=checks,
    )
