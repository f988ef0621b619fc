"""The evidence file of a kit as a GPU node would write it; composed, no GPU was asked.

The harness itself makes each evidence, from reports that are made up to show the bug or
not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kb.models import Repro
from portable import harness

STARTED_AT = "2026-01-02T03:04:05Z"


@dataclass(frozen=True)
class Gpu:
    """A GPU and the torch beside it."""

    name: str = "NVIDIA H100 80GB HBM3"
    capability: str = "9.0"
    raw: str = "2.11.0+cu130"
    cuda: str = "13.0"

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "slug": harness.build_slug(self.raw, self.cuda),
            "raw": self.raw,
            "dist": None,
            "git": None,
            "cuda": self.cuda,
            "hip": None,
            "cudnn": "91900",
            "python": "3.12",
            "platform": "linux-x86_64",
            "machine": "x86_64",
            "packages": {},
        }

    @property
    def device(self) -> dict[str, Any]:
        return {
            "class": "cuda",
            "name": self.name,
            "capability": self.capability,
            "memory_mib": 81_559,
            "driver": "580.65.06",
            "uuid": "GPU-00000000-0000-4000-8000-000000000001",
        }


def evidence_of(repro: Repro, gpu: Gpu, *, bug: bool) -> dict[str, Any]:
    header = harness.parse_header(repro.source)
    digest = harness.source_digest(repro.source)
    shows = {"detector": True, "trigger": bug}
    packages = {
        name: "99.0" for name, _ in map(harness.parse_dependency, header.dependencies)
    }

    def start(spec: harness.CheckSpec) -> harness.Report:
        facts = {"python": "3.12.0", "torch": gpu.raw, "missing": []}
        met = dict.fromkeys(harness.NEEDS, True)
        seen = (
            {**met, "said": ""}
            if spec.name == "requirements"
            else observed(header, bug=shows.get(spec.name, False))
        )
        said_first = {
            "repro": digest,
            "identity": gpu.identity,
            "devices": [gpu.device] * header.min_devices,
            "facts": {**facts, "packages": packages},
            "parameters": spec.parameters,
        }
        message = {"check": spec.name, "trial": spec.trial, "observations": seen}
        messages = [{"t": "result", **message}]
        return harness.Report(hello=said_first, messages=messages, exit=0)

    body = harness.drive(repro.source, start, name=repro.name, record=repro.record_id)
    body["started_at"] = STARTED_AT
    body["digest"] = harness.evidence_digest(body)
    return dict(json.loads(json.dumps(body)))


def observed(header: harness.Header, *, bug: bool) -> dict[str, Any]:
    """Observations for which the predicate holds or does not."""
    found: dict[str, Any] = dict.fromkeys(header.match, 1.0)
    for source in header.bug:
        key, op, literal = harness.parse_predicate(source)
        if op == "is_nonfinite":
            found[key] = {"$float": "nan"} if bug else 0.0
        elif op in (">", "<"):
            found[key] = literal + (1 if op == ">" else -1) * bug
        elif isinstance(literal, bool):
            found[key] = literal == (bug == (op == "=="))
        else:
            found[key] = literal if bug == (op in ("==", ">=", "<=")) else literal + 1
    return {**found, **header.expect}


def whole(repros: Iterable[Repro], gpu: Gpu, *, bug: bool) -> dict[str, Any]:
    """What `python kit.zip --json FILE` leaves, as far as loading reads it."""
    bodies = [evidence_of(repro, gpu, bug=bug) for repro in repros]
    build = {key: gpu.identity.get(key) for key in harness.BUILD_KEYS}
    rows = [{"record": body["record"], "evidence": body} for body in bodies]
    return {
        "schema": "doesitnan.doctor/1",
        "build": build,
        "gpus": [gpu.name],
        "results": rows,
    }
