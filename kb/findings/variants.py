"""For which values of a repro's parameters the code of a workaround was seen to hold.

The reviewed values count as well. Only builds on which it helps at these tell anything;
where one of them shows otherwise, it is said not to hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kb.choices import PARAMETERS, Fidelity, Outcome, Verdict
from kb.languages import LIST_COMMA, current_lang
from kb.models import Finding, Repro

SHORT = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
Values = Mapping[str, Any]


@dataclass
class Reach:
    """Values by parameter, in the order of the declaration. `fails`: whole variants."""

    holds: dict[str, list[Any]] = field(default_factory=dict)
    fails: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        known = self.holds.setdefault(name, [])
        if value not in known:
            known.append(value)

    @property
    def held(self) -> str:
        """fp32, bf16, fp16 · batch size 1, 3; "" where no variant is known to hold."""
        dtype_first = sorted(self.holds.items(), key=lambda row: row[0] != "dtype")
        return " · ".join(map(values_text, dtype_first))

    @property
    def failed(self) -> str:
        return " · ".join(
            values_text((name, [value]))
            for values in self.fails
            for name, value in values.items()
        )


def values_text(row: tuple[str, list[Any]]) -> str:
    """A dtype speaks for itself; other values need the name of their parameter."""
    name, values = row
    listed = LIST_COMMA[current_lang()].join(shown(value) for value in values)
    return listed if name == "dtype" else f"{PARAMETERS.get(name, name)} {listed}"


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return SHORT.get(str(value), str(value))


def reach(name: str, findings: Iterable[Finding], repros: Iterable[Repro]) -> Reach:
    """Of the workaround of this name."""
    rows = [row for row in findings if counts(row)]
    helped = {
        (row.repro, row.build, row.device_class)
        for row in rows
        if row.check_name == f"workaround_{name}" and row.outcome == Outcome.CLEAN
    }
    rows = [row for row in rows if (row.repro, row.build, row.device_class) in helped]
    found = Reach()
    for repro in repros:
        declared = repro.header.get("parameters") or {}
        seen = dict(outcomes(name, repro.name, rows))
        for variant, values in (repro.header.get("variants") or {}).items():
            if variant not in seen:
                continue
            if seen[variant] != {Outcome.CLEAN}:
                found.fails.append(dict(values))
                continue
            for parameter, value in values.items():
                found.add(parameter, declared[parameter]["default"])
                found.add(parameter, value)
    return found


def outcomes(
    name: str, repro: str, findings: list[Finding]
) -> Iterator[tuple[str, set[str]]]:
    """(variant, outcomes) of the workaround where the bug itself was seen."""
    by_variant: dict[str, set[str]] = {}
    for row in findings:
        variant, _space, workaround = row.check_name.partition(" ")
        if workaround == name and row.repro == repro:
            key = variant.removeprefix("variant_")
            by_variant.setdefault(key, set()).add(row.outcome)
    yield from by_variant.items()


def counts(row: Finding) -> bool:
    return (
        not row.stale
        and row.fidelity != Fidelity.MECHANISM_MODEL
        and row.verdict == Verdict.BUG_PRESENT
    )
