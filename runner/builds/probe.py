"""Probes the torch of an interpreter, in throw-away processes.

torch is only ever imported under the build's own Python, and what a probe does to its
process, such as initialising CUDA, ends with it. Standard library only.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portable import harness

FEATURES = str(Path(__file__).with_name("features.py"))
TIMEOUT_S = 120
TRACE_LINES = 12
TRACE_CHARS = 4000


class BuildError(Exception):
    """A build cannot be probed, installed or removed; the text says why."""


@dataclass(frozen=True)
class Probed:
    """The result of the probes: identity, visible GPUs, and facts with the features."""

    identity: dict[str, Any]
    devices: list[dict[str, Any]]
    facts: dict[str, Any]


def probe(interpreter: Path, known: dict[str, Any] | None = None) -> Probed:
    """Import an interpreter's torch and identify it.

    `known`: facts of an earlier probe; their features are reused while the files of
    torch and compiler are the same. Raises BuildError with the end of the traceback.
    """
    report = harness.probe(str(interpreter))
    hello = report.hello
    if report.failure or not hello:
        raise BuildError(failure_of(report))
    facts = dict(hello["facts"])
    same = known if known and known.get("stamp") == stamp(known, interpreter) else None
    facts.update(same or features(interpreter))
    facts.update(hello["facts"])
    return Probed(hello["identity"], list(hello["devices"]), facts)


def failure_of(report: harness.Report) -> str:
    """The reason, and the last lines of the output."""
    lines = report.log_text.rstrip().splitlines()[-TRACE_LINES:] or ["no output"]
    trace = "\n".join(line.removeprefix("[stderr] ") for line in lines)
    return f"{report.failure or 'no_report'}\n{trace[-TRACE_CHARS:]}"


def features(interpreter: Path) -> dict[str, Any]:
    """Facts of runner.builds.features, or {"features_error": why there are none}."""
    start = harness.start_plain(str(interpreter), FEATURES)
    report = start(harness.CheckSpec("features", timeout_s=TIMEOUT_S))
    parts = harness.reported_observations(report)
    if not isinstance(parts, dict):
        return {"features_error": failure_of(report)}
    try:
        facts = json.loads("".join(str(parts[key]) for key in sorted(parts)))
    except ValueError:
        return {"features_error": "its answer cannot be read"}
    facts = dict(facts) if isinstance(facts, dict) else {}
    facts["stamp"] = stamp(facts, interpreter)
    return facts


def stamp(facts: dict[str, Any], interpreter: Path) -> list[Any]:
    """A cache key: changes with the interpreter, its torch, its packages and CXX."""
    torch = Path(str(facts.get("torch_file", "")))
    watched = (torch.with_name("version.py"), torch.parent.parent, Path(FEATURES))
    times = [path.stat().st_mtime_ns if path.exists() else 0 for path in watched]
    return [os.path.realpath(interpreter), *times, os.environ.get("CXX", "")]
