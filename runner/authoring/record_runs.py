"""The repros of a record, run: as they stand, then made worse on purpose."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner import run_sentences
from runner.authoring import quotes
from runner.authoring.mutations import WORKAROUND, ending, mutations
from runner.authoring.parts import Part, place_of, tail
from runner.authoring.record_variants import variant_parts
from runner.worker.execution import Job, Listeners, run_now

Evidence = Mapping[str, Any]


@dataclass
class Bench:
    """Where runs happen. `interpreter`: of the build for a source, by its path.

    `chosen` says in words why that build; `phase` hears what goes on.
    """

    interpreter: Callable[[str], str]
    chosen: str
    phase: Callable[[str, str], None]
    printed: list[str] = field(default_factory=list)

    def run(self, job: Job) -> Evidence:
        return run_now(job, self.interpreter(job.source), Listeners(self.phase))


def run_parts(path: Path, job: Job, bench: Bench) -> Iterator[Part]:
    """One run of a repro, its variants and its mutations.

    What the trigger said goes to the bench.
    """
    evidence = bench.run(job)
    bench.printed += quotes.output(evidence)
    slug = evidence["build"]["slug"] or "no torch"
    part = Part(f"run of {path.name} on {slug}, {bench.chosen}: {ending(evidence)}")
    part.problems += run_problems(path, evidence)
    part.notes += run_notes(path, evidence)
    yield part
    yield from variant_parts(path, job.source, evidence)
    yield mutation_part(path, job, evidence, bench)


def run_problems(path: Path, evidence: Evidence) -> list[str]:
    problems = []
    if evidence["verdict"] in ("error", "inconclusive"):
        check = evidence["checks"][-1]
        sentence = run_sentences.evidence_sentence(dict(evidence))["en"]
        where = f"{place_of(path, check['name'])}: {check['name']}"
        problems.append(f"{where}: {sentence}{tail(check)}")
    for check in evidence["checks"]:
        is_workaround = check["name"].startswith(WORKAROUND)
        if is_workaround and check["outcome"] == "error":
            where = f"{place_of(path, check['name'])}: {check['name']}"
            problems.append(f"{where}: ended in error: {check['reason']}{tail(check)}")
    return problems


def run_notes(path: Path, evidence: Evidence) -> list[str]:
    return [
        f"{place_of(path, WORKAROUND + name)}: {WORKAROUND}{name} does not help on "
        "this build"
        for name, state in evidence["workarounds"].items()
        if state == "does_not_help"
    ]


def mutation_part(path: Path, job: Job, evidence: Evidence, bench: Bench) -> Part:
    part = Part(f"mutations of {path.name}")
    if evidence["verdict"] not in ("bug_present", "bug_absent"):
        part.skipped = "the run itself has to end in a verdict first"
        return part
    for mutation in mutations(job.source, evidence):
        changed = bench.run(Job(mutation.source, job.name, None))
        faults = mutation.faults(changed)
        part.problems += [f"{path.parent.name}/{path.name}: {text}" for text in faults]
        if not faults:
            part.notes.append(f"{mutation.what}: {outcome_of(changed)}, as it should")
    if evidence["verdict"] == "bug_absent":
        part.notes.append(
            "This build does not have the bug, so trigger and workarounds could not be "
            f"tested by mutation. Name one that has it: --build SLUG{builds(path)}."
        )
    return part


def outcome_of(evidence: Evidence) -> str:
    states = sorted(set(evidence["workarounds"].values()))
    return f"{ending(evidence)}{' / ' if states else ''}{', '.join(states)}"


def builds(path: Path) -> str:
    """Builds on which evidence beside the record shows the bug."""
    found = []
    for kept in sorted(path.parent.glob(f"evidence/{path.stem}-*.json")):
        # What is no evidence, such as what a refused command left, load_evidence names.
        with contextlib.suppress(ValueError, LookupError, TypeError):
            if json.loads(kept.read_bytes())["verdict"] == "bug_present":
                found.append(kept.stem.partition("-")[2])
    return f" (evidence shows it on {', '.join(found)})" if found else ""
