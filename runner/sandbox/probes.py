"""Which layers this machine has, found by using each of them for real."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from runner.sandbox import box, bubblewrap, cgroups, policy, uids, view
from runner.sandbox.jail import kernel
from runner.sandbox.layout import Layout
from runner.sandbox.tiers import Layers

LAYERS = ("bubblewrap", "namespaces", "landlock", "seccomp", "cgroup")
TRIED = ("namespaces", "landlock", "seccomp")  # what selfcheck.py can try
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
    """A layer did not keep what it promises; the text says which and how."""


def capabilities(without: Iterable[str] = ()) -> Capabilities:
    """What works here, probed once in each process. `without`: layers not to use.

    Raises ValueError for a layer that does not exist.
    """
    return _capabilities(known(without))


def known(layers: Iterable[str]) -> frozenset[str]:
    """These names of layers. Raises ValueError where one is none."""
    names = frozenset(layers)
    if names - set(LAYERS):
        wrong = ", ".join(sorted(names - set(LAYERS)))
        raise ValueError(f"no layer {wrong}; there are {', '.join(LAYERS)}")
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
    layers = together(without, reasons)
    if groups:
        layers = layers._replace(cgroup=groups.version)
    return Capabilities(layers, reasons, groups)


def together(without: frozenset[str], reasons: dict[str, str]) -> Layers:
    """The strongest combination that holds; notes in `reasons` what does not.

    All at once first, as that is the ordinary case and costs one process.
    """
    wanted = Layers(
        namespaces=outer_box(without, reasons),
        landlock=None if "landlock" in without else 99,
        seccomp="seccomp" not in without,
        uid="own" if kernel.may_administer() else "shared",
    )
    try:
        return probed(wanted)
    except Failed as error:
        reasons["together"] = str(error)
    found = Layers(uid=wanted.uid)
    for name, change in steps(wanted):
        if getattr(found, next(iter(change))):
            continue  # bubblewrap works: the other way to the same is not needed
        try:
            # Alone, for its own reason; then with the others, as runs are held.
            alone = probed(Layers()._replace(**change))
            probed(found._replace(**change))
        except Failed as error:
            reasons[name] = str(error)
            continue
        found = found._replace(**{key: getattr(alone, key) for key in change})
    reasons.pop("together", None)
    return found


def outer_box(without: frozenset[str], reasons: dict[str, str]) -> str | None:
    if "namespaces" in without:
        return None
    if "bubblewrap" in without or bubblewrap.program() is None:
        reasons.setdefault("bubblewrap", "not installed")
        return "unshare"
    return "bubblewrap"


def steps(wanted: Layers) -> Iterable[tuple[str, dict[str, Any]]]:
    """Layers to try one after the other, the ones that carry most first."""
    if wanted.namespaces == "bubblewrap":
        yield "bubblewrap", {"namespaces": "bubblewrap"}
    if wanted.namespaces:
        yield "namespaces", {"namespaces": "unshare"}
    if wanted.seccomp:
        yield "seccomp", {"seccomp": True}
    if wanted.landlock:
        yield "landlock", {"landlock": wanted.landlock}


def probed(layers: Layers) -> Layers:
    """Use these layers for real; returns them as they were found. Raises Failed."""
    with ExitStack() as stack:
        prefix = "doesitnan-probe-"
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix))
        known = Layout(view.own_python())
        own = policy.layers_with(layers, known).uid == "own"
        uid = stack.enter_context(uids.lease()) if own else None
        entries = view.build_view(known, users=policy.users())
        scratch = view.SCRATCH if layers.namespaces else f"{folder}/run"
        told = policy.check_policy(layers, scratch=scratch, entries=entries, uid=uid)
        jail = view.INSIDE_JAIL if layers.namespaces else str(view.JAIL)
        tried = [name for name in TRIED if getattr(layers, name)]
        command = [view.own_python(), "-I", "-S", f"{jail}/selfcheck.py", *tried]
        said = outcome(told, command, entries)
    abi = min(layers.landlock, said["landlock"]) if layers.landlock else None
    return layers._replace(landlock=abi)


def outcome(
    told: policy.Policy, command: list[str], entries: list[view.Entry]
) -> dict[str, Any]:
    """What the self-check printed. Raises Failed with the reason."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            started = box.start(
                told,
                command,
                entries,
                env={"PATH": "/usr/bin:/bin"},
                stdout=output.fileno(),
                stderr=errors.fileno(),
            )
        except box.NotStarted as error:
            raise Failed(str(error)) from error
        report = last_words(started)
        for file in (output, errors):
            file.seek(0)
        lines = errors.read().decode(errors="replace").split("\n")
        if report.get("error"):
            raise Failed(str(report["error"]))
        if report.get("status") != 0:
            said = [line.strip() for line in lines if line.strip()]
            raise Failed(said[-1] if said else f"ended with {report.get('status')}")
        found = json.loads(output.read())
        return found if isinstance(found, dict) else {}


def last_words(started: box.Box) -> dict[str, Any]:
    """The final packet of the jail's init; {} without one."""
    deadline = time.monotonic() + TIMEOUT_S
    message: dict[str, Any] = {"ready": True}
    while message and "status" not in message:
        message = box.first_words(
            started.control, max(0.1, deadline - time.monotonic())
        )
    started.control.close()
    try:
        started.process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        started.process.kill()
        started.process.wait()
    return message
