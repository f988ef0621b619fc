"""A repro made worse on purpose: its verdict must change, else it proves nothing.

Only the checks that matter keep their code. Those that have run already give back
what they observed then, and the others are hidden from the harness.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from portable import harness

Observations = Mapping[str, Any]
HIDDEN = "_unchanged_"
WORKAROUND = "workaround_"
# Of a check that does nothing at all: what it observes is as empty as can be.
BLANKS: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (str, ""),
    (list, []),
)


@dataclass(frozen=True)
class Mutation:
    """`faults` says of the evidence of `source` what did not change, if anything."""

    what: str
    source: str
    faults: Callable[[Mapping[str, Any]], list[str]]


def mutations(source: str, evidence: Mapping[str, Any]) -> list[Mutation]:
    """Those that can show something after this run of the source."""
    header, checks = harness.read_repro(source)
    recorded = recorded_observations(evidence)
    found = []
    if {"control", "detector"} <= recorded.keys():
        found.append(detector_as_control(source, header, checks))
    if evidence["verdict"] == "bug_present":
        found.append(trigger_as_control(source, header, checks, recorded))
        verified = [
            name
            for name, state in evidence["workarounds"].items()
            if state == "verified"
        ]
        if verified and not header.match_waived:
            found.append(emptied(source, header, checks, recorded, verified))
    return found


def recorded_observations(evidence: Mapping[str, Any]) -> dict[str, Observations]:
    """What the checks of a run observed; of the triggers, one that shows the bug."""
    sound = [check for check in evidence["checks"] if check["outcome"] != "error"]
    sound.sort(key=lambda check: check["outcome"] == "bug")
    return {check["name"]: harness.decode(check["observations"]) for check in sound}


# --- the three ----------------------------------------------------------------------
def detector_as_control(
    source: str, header: harness.Header, checks: list[str]
) -> Mutation:
    def faults(evidence: Mapping[str, Any]) -> list[str]:
        if (evidence["verdict"], evidence["reason"]) == (
            "inconclusive",
            "detector_silent",
        ):
            return []
        return [
            "the detector equal to the control should make the run inconclusive, but "
            f"it ends in {ending(evidence)}: `bug` in the header is true of a clean "
            "run, or the control does more than it seems"
        ]

    text = replaced(
        source,
        with_env_of_control(header, "detector"),
        checks,
        {"detector": "return control()"},
        keep=("control", "trigger"),
    )
    return Mutation("detector equal to the control", text, faults)


def trigger_as_control(
    source: str,
    header: harness.Header,
    checks: list[str],
    recorded: Mapping[str, Observations],
) -> Mutation:
    def faults(evidence: Mapping[str, Any]) -> list[str]:
        if evidence["verdict"] != "bug_present":
            return []
        return [
            "the trigger equal to the control still shows the bug: control and trigger "
            "do not differ in what causes it"
        ]

    text = replaced(
        source,
        with_env_of_control(header, "trigger"),
        checks,
        {"trigger": "return control()", "detector": returning(recorded["detector"])},
        keep=("control",),
    )
    return Mutation("trigger equal to the control", text, faults)


def emptied(
    source: str,
    header: harness.Header,
    checks: list[str],
    recorded: Mapping[str, Observations],
    verified: Iterable[str],
) -> Mutation:
    names = [WORKAROUND + name for name in verified]

    def faults(evidence: Mapping[str, Any]) -> list[str]:
        return [
            f"workaround_{name} emptied still counts as verified: `match` "
            f"({', '.join(header.match)}) is met by doing nothing. Let the checks also "
            "return a number that only the work yields, such as a norm, and match that"
            for name, state in evidence["workarounds"].items()
            if state == "verified"
        ]

    bodies = {
        name: returning(recorded[name]) for name in ("control", "detector", "trigger")
    }
    bodies |= {name: returning(blank(recorded[name])) for name in names}
    text = replaced(source, header, checks, bodies, keep=())
    return Mutation("workarounds emptied", text, faults)


def ending(evidence: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (evidence["verdict"], evidence["reason"])))


def blank(observations: Observations) -> dict[str, Any]:
    """The same names with values that say nothing."""
    return {
        name: next(empty for kind, empty in BLANKS if isinstance(value, kind))
        for name, value in observations.items()
        if name not in harness.RESERVED_TEXTS
    }


# --- writing a source ---------------------------------------------------------------
def replaced(
    source: str,
    header: harness.Header,
    checks: list[str],
    bodies: Mapping[str, str],
    keep: Iterable[str],
) -> str:
    """The source with these one-line bodies, and without the other checks.

    A check that is replaced or left out keeps its code under its name with a prefix,
    as others may call it.
    """
    gone = set(checks) - set(keep)
    lines = source.split("\n")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name in gone:
            at = node.lineno - 1
            was = re.compile(rf"\bdef(\s+){node.name}\b")
            lines[at] = was.sub(rf"def\1{HIDDEN}{node.name}", lines[at], count=1)
    hidden = sorted(gone - set(bodies))
    # An assignment is no check to the harness.
    aliases = [f"{name} = {HIDDEN}{name}" for name in hidden]
    functions = [f"def {name}():\n    {body}\n" for name, body in bodies.items()]
    left = {*keep, *bodies, "all"}
    env = {name: table for name, table in header.env.items() if name in left}
    header = dataclasses.replace(header, env=env, trials=1, variants={})
    text = with_header("\n".join(lines), header)
    return "\n".join([text.rstrip("\n"), "", *aliases, "", *functions])


def with_env_of_control(header: harness.Header, name: str) -> harness.Header:
    """The header with the variables of the control for this check too."""
    env = {key: table for key, table in header.env.items() if key != name}
    if "control" in header.env:
        env[name] = header.env["control"]
    return dataclasses.replace(header, env=env)


def returning(observations: Observations) -> str:
    pairs = (f"{name!r}: {literal(value)}" for name, value in observations.items())
    return f"return {{{', '.join(pairs)}}}"


def literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def with_header(source: str, header: harness.Header) -> str:
    """The source with this header in place of its own."""
    lines = source.split("\n")
    stripped = [line.rstrip() for line in lines]
    start = stripped.index("# /// script")
    end = max(at for at in range(start + 1, len(lines)) if stripped[at] == "# ///")
    return "\n".join([*lines[:start], *header_lines(header), *lines[end + 1 :]])


def header_lines(header: harness.Header) -> list[str]:
    """The header as its block of comments, keys with their defaults left out."""
    apart = ("requires_python", "dependencies")
    fields = [row for row in dataclasses.fields(header) if row.name not in apart]
    plain = {row.name: getattr(header, row.name) for row in fields}
    own = {
        row.name: plain[row.name]
        for row in fields
        if plain[row.name] and plain[row.name] != row.default
    }
    lines = ["/// script"]
    if header.requires_python:
        lines.append(f"requires-python = {toml(header.requires_python)}")
    lines.append(f"dependencies = {toml(header.dependencies)}")
    lines.append("[tool.doesitnan]")
    lines += [f"{name} = {toml(value)}" for name, value in own.items()]
    return [f"# {line}" for line in [*lines, "///"]]


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(name)} = {toml(item)}" for name, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)
