"""Probes which sandbox layers work on this machine, by using each of them."""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from runner.sandbox import box, bubblewrap, cgroups, policy, uids, view
from runner.sandbox.jail import kernel
from runner.sandbox.layout import Layout
from runner.sandbox.tiers import LAYERS, SWITCHES, Layers

TIMEOUT_S = 30.0
SWITCHED_OFF = "switched off"


@dataclass(frozen=True)
class Capabilities:
    """The layers that work together here, and why others do not."""

    layers: Layers
    reasons: Mapping[str, str] = field(default_factory=dict)
    cgroups: cgroups.Cgroups | None = None
    nothing: str = ""  # why nothing at all can be held here


class Failed(Exception):
    """A layer does not protect as it should; the text says which and how."""


def capabilities(without: Iterable[str] = ()) -> Capabilities:
    """What works here, probed once in each process. `without`: layers not to use.

    Raises ValueError for an unknown layer.
    """
    return _capabilities(checked_names(without))


def checked_names(layers: Iterable[str]) -> frozenset[str]:
    """The names as a set. Raises ValueError for an unknown layer."""
    names = frozenset(layers)
    if names - set(SWITCHES):
        wrong = ", ".join(sorted(names - set(SWITCHES)))
        raise ValueError(f"no layer {wrong}; there are {', '.join(SWITCHES)}")
    return names


@functools.lru_cache(maxsize=16)
def _capabilities(without: frozenset[str]) -> Capabilities:
    if not sys.platform.startswith("linux"):
        return Capabilities(Layers(), nothing=f"{sys.platform} is not Linux")
    reasons = dict.fromkeys(without, SWITCHED_OFF)
    groups = None
    if "cgroup" not in without:
        try:
            groups = cgroups.find()
        except OSError as error:
            reasons["cgroup"] = str(error)
    layers = with_user(together(without, reasons), reasons)
    if groups:
        layers = layers._replace(cgroup=groups.version)
    return Capabilities(layers, reasons, groups)


def together(without: frozenset[str], reasons: dict[str, str]) -> Layers:
    """The strongest combination that works; `reasons` gets why others do not.

    Tries all at once first: the usual case, at the cost of one process.
    """
    desired = Layers(
        namespaces=outer_box(without, reasons),
        landlock=None if "landlock" in without else 99,
        seccomp="seccomp" not in without,
        uid="own" if kernel.may_administer() else "shared",
    )
    try:
        return probed(desired)
    except Failed as error:
        reasons["together"] = str(error)
    working = Layers(uid=desired.uid)
    for name, change in steps(desired):
        if getattr(working, next(iter(change))):
            continue  # bubblewrap works, so unshare is not needed
        try:
            # Alone, for its own reason; then together with the others.
            alone = probed(Layers()._replace(**change))
            probed(working._replace(**change))
        except Failed as error:
            reasons[name] = str(error)
            continue
        working = working._replace(**{key: getattr(alone, key) for key in change})
    reasons.pop("together", None)
    return working


def with_user(layers: Layers, reasons: dict[str, str]) -> Layers:
    """These layers with the user that a run really gets, by this Python's place.

    Inside a view only the build decides, see `policy.layers_for`.
    """
    if layers.namespaces:
        return layers
    ours = Layout(view.own_python())
    if layers.uid == "own" and (closed := policy.closed_part(layers, ours)):
        reasons["uid"] = f"other users cannot read {closed}"
    return policy.layers_with(layers, ours)


def outer_box(without: frozenset[str], reasons: dict[str, str]) -> str | None:
    if "namespaces" in without:
        return None
    if "bubblewrap" in without or bubblewrap.program() is None:
        reasons.setdefault("bubblewrap", "not installed")
        return "unshare"
    return "bubblewrap"


def steps(desired: Layers) -> Iterable[tuple[str, dict[str, Any]]]:
    """Layers to try one after the other, the most important first."""
    if desired.namespaces == "bubblewrap":
        yield "bubblewrap", {"namespaces": "bubblewrap"}
    if desired.namespaces:
        yield "namespaces", {"namespaces": "unshare"}
    if desired.seccomp:
        yield "seccomp", {"seccomp": True}
    if desired.landlock:
        yield "landlock", {"landlock": desired.landlock}


def probed(layers: Layers) -> Layers:
    """Use these layers; returns them with the Landlock ABI found. Raises Failed."""
    with ExitStack() as stack:
        prefix = "doesitnan-probe-"
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix))
        python_layout = Layout(view.own_python())
        own = policy.layers_with(layers, python_layout).uid == "own"
        uid = stack.enter_context(uids.lease()) if own else None
        entries = view.build_view(python_layout, users=policy.users())
        scratch = view.SCRATCH if layers.namespaces else f"{folder}/run"
        probe_policy = policy.check_policy(
            layers, scratch=scratch, entries=entries, uid=uid
        )
        jail = view.INSIDE_JAIL if layers.namespaces else str(view.JAIL)
        tried = [
            name
            for name, layer in LAYERS.items()
            if layer.tried and getattr(layers, name)
        ]
        command = [view.own_python(), "-I", "-S", f"{jail}/selfcheck.py", *tried]
        report = outcome(probe_policy, command, entries)
    abi = min(layers.landlock, report["landlock"]) if layers.landlock else None
    return layers._replace(landlock=abi)


def outcome(
    probe_policy: policy.Policy, command: list[str], entries: list[view.Entry]
) -> dict[str, Any]:
    """The report that the self-check printed. Raises Failed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            started = box.start(
                probe_policy,
                command,
                entries,
                env={"PATH": "/usr/bin:/bin"},
                stdout=output.fileno(),
                stderr=errors.fileno(),
                given=box.Given(),
            )
        except box.NotStarted as error:
            raise Failed(str(error)) from error
        packet = final_packet(started)
        for file in (output, errors):
            file.seek(0)
        lines = errors.read().decode(errors="replace").split("\n")
        if packet.get("error"):
            raise Failed(str(packet["error"]))
        if packet.get("status") != 0:
            messages = [line.strip() for line in lines if line.strip()]
            raise Failed(
                messages[-1] if messages else f"ended with {packet.get('status')}"
            )
        report = json.loads(output.read())
        return report if isinstance(report, dict) else {}


def final_packet(started: box.Box) -> dict[str, Any]:
    """The final packet of the jail's init; {} without one."""
    message = box.last_packet(started.control, TIMEOUT_S)
    started.control.close()
    box.reap(started.process)
    return message
