"""What an interpreter's torch is and can do, asked in throw-away processes.

torch is only ever imported under the build's own Python; what a probe does to a
process (CUDA for one) ends with it. Standard library only.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import harness

FEATURES = str(Path(__file__).with_name("features.py"))
TIMEOUT_S = 120
TRACE_LINES = 12
TRACE_CHARS = 4000


class BuildError(Exception):
    """A build cannot be probed, installed or removed; the text says why."""


@dataclass(frozen=True)
class Probed:
    """What the probes said: identity, GPUs seen, facts (with the features)."""

    identity: dict[str, Any]
    devices: list[dict[str, Any]]
    facts: dict[str, Any]


def probe(interpreter: Path, known: dict[str, Any] | None = None) -> Probed:
    """Import an interpreter's torch and ask what it is.

    `known`: the facts of an earlier probe; what a build can do is not asked again
    while its torch and the compiler are the same files. Raises BuildError with the
    last lines of the traceback.
    """
    report = harness.probe(str(interpreter))
    hello = report.hello
    if report.failure or not hello:
        raise BuildError(failure_of(report))
    facts = dict(hello["facts"])
    kept = known if known and known.get("stamp") == stamp(known, interpreter) else None
    facts.update(kept or features(interpreter))
    facts.update(hello["facts"])
    return Probed(hello["identity"], list(hello["devices"]), facts)


def failure_of(report: harness.Report) -> str:
    """The reason, and the last lines of what the process printed."""
    lines = report.log_text.rstrip().splitlines()[-TRACE_LINES:] or ["no output"]
    trace = "\n".join(line.removeprefix("[stderr] ") for line in lines)
    return f"{report.failure or 'no_report'}\n{trace[-TRACE_CHARS:]}"


def features(interpreter: Path) -> dict[str, Any]:
    """Facts of runner.builds.features, or why they could not be had."""
    start = harness.start_plain(str(interpreter), FEATURES)
    report = start(harness.CheckSpec("features", timeout_s=TIMEOUT_S))
    said = harness.reported_observations(report)
    if not isinstance(said, dict):
        return {"features_error": failure_of(report)}
    try:
        found = json.loads("".join(str(said[key]) for key in sorted(said)))
    except ValueError:
        return {"features_error": "its answer cannot be read"}
    found = dict(found) if isinstance(found, dict) else {}
    found["stamp"] = stamp(found, interpreter)
    return found


def stamp(facts: dict[str, Any], interpreter: Path) -> list[Any]:
    """Changes with the interpreter, the torch it imports, its packages and CXX."""
    torch = Path(str(facts.get("torch_file", "")))
    watched = (torch.with_name("version.py"), torch.parent.parent, Path(FEATURES))
    times = [path.stat().st_mtime_ns if path.exists() else 0 for path in watched]
    return [os.path.realpath(interpreter), *times, os.environ.get("CXX", "")]
