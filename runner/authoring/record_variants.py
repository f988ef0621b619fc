"""Whether the code of the workarounds of a repro also holds in its variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from portable import harness
from runner.authoring.mutations import WORKAROUND
from runner.authoring.parts import Part, place_of, tail

Evidence = Mapping[str, Any]


def variant_parts(path: Path, source: str, evidence: Evidence) -> Iterator[Part]:
    """One part where the repro declares variants, else none."""
    header, checks = harness.read_repro(source)
    if not header.variants:
        return
    part = Part(f"variants of {path.name}")
    if not harness.variant_checks(source, checks):
        part.skipped = "no workaround is a function apply_<name>"
    elif "variants" not in evidence:
        part.skipped = "they are run where the run itself shows the bug"
    for name, variant in evidence.get("variants", {}).items():
        judge(part, path, name, variant, evidence["workarounds"])
    yield part


def judge(
    part: Part,
    path: Path,
    name: str,
    variant: Mapping[str, Any],
    at_defaults: Mapping[str, str],
) -> None:
    """Say of each workaround what its check in this variant showed.

    One that helps at the defaults has to hold here too. A variant without the bug
    says nothing, which is worth knowing.
    """
    rows = {row["name"]: row for row in variant["checks"]}
    held = []
    for workaround, state in variant["workarounds"].items():
        row = rows.get(WORKAROUND + workaround)
        where = f"{place_of(path, WORKAROUND + workaround)}: {WORKAROUND}{workaround}"
        if state == "verified":
            held.append(workaround)
        elif row is None:
            continue
        elif row["outcome"] == "error":
            text = f"{where}: ended in error in {name}: {row['reason']}{tail(row)}"
            part.problems.append(text)
        elif row["outcome"] == "not_applicable":
            part.notes.append(f"{where}: not applicable in {name}: {row['reason']}")
        elif at_defaults[workaround] == "verified":
            part.problems.append(f"{where}: does not hold in {name}")
        else:
            part.notes.append(f"{where}: does not help in {name} either")
    if held:
        part.notes.append(f"{name}: {', '.join(held)} verified")
    if not any(row.startswith(WORKAROUND) for row in rows):
        last = variant["checks"][-1]
        part.notes.append(
            f"{place_of(path, last['name'])}: {last['name']} is {last['outcome']} in "
            f"{name}, which says nothing of workarounds there{tail(last)}"
        )
