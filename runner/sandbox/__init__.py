"""Starts the checks of a repro in the strongest jail that this machine has.

What that is, is probed and never assumed, and every run says it: see `tiers`. Standard
library only; what executes on the way into the jail is in `runner/sandbox/jail`.

    python -m runner.sandbox REPRO.py [--json] [--python PATH] [--trials N]
    python -m runner.sandbox --probe [--json]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runner.sandbox import cgroups, policy, probes, scratch, tiers
from runner.sandbox.coldstart import ColdStart
from runner.sandbox.policy import FILE_MIB, PROCESSES
from runner.sandbox.probes import LAYERS, Capabilities
from runner.sandbox.scratch import scratch_folder
from runner.sandbox.tiers import TIERS, Layers, Tier, layer_words, of_run, told

__all__ = [
    "FILE_MIB",
    "LAYERS",
    "PROCESSES",
    "TIERS",
    "Capabilities",
    "ColdStart",
    "Layers",
    "Tier",
    "capabilities",
    "configure",
    "layer_words",
    "limits",
    "of_run",
    "reaches",
    "remove_leftovers",
    "scratch_folder",
    "start_in",
    "tier",
    "told",
]


class _Settings:
    """What the deployment says, for the whole process."""

    without: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()


def configure(without: Iterable[str] = (), hidden: Iterable[str] = ()) -> None:
    """Layers that must not be used and folders that no run may see, from now on.

    Raises ValueError for a layer that does not exist.
    """
    _Settings.without = probes.known(without)
    _Settings.hidden = tuple(hidden)


def capabilities(without: Iterable[str] | None = None) -> Capabilities:
    """The layers that work here, probed once in each process."""
    return probes.capabilities(_Settings.without if without is None else without)


def tier(without: Iterable[str] | None = None) -> Tier:
    """How well this machine holds runs, why not better, and what would help."""
    found = capabilities(without)
    if found.nothing:
        return TIERS["E"]
    return tiers.describe(found.layers, found.reasons)


def reaches(wanted: str) -> bool:
    """Whether this machine holds a repro at least as well as tier `wanted`."""
    return tiers.reaches(tier().tier, wanted)


def start_in(
    interpreter: str,
    repro: str,
    *,
    hide_gpus: bool = False,
    compile_cache: str = "",
    on_line: Callable[[str, str, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    gpus: str | None = None,
    hold_fds: Sequence[int] = (),
    without: Iterable[str] | None = None,
) -> ColdStart:
    """A Start for `harness.drive`: each check a fresh process under `interpreter`.

    Inside, the working folder is another one: relative names, of the interpreter too,
    are taken from here. `repro` is the path of the source that is driven,
    `on_line(check, stream, text)` gets its output as it comes; `cancelled` is asked
    about ten times a second. `compile_cache`: a folder that checks with
    needs = ["compiler"] share. `gpus`: what CUDA_VISIBLE_DEVICES says, "" for none.
    `hold_fds`: descriptors that stay open until the last process of a check is gone,
    and that the check does not get.
    """
    return ColdStart(
        os.path.abspath(interpreter),  # noqa: PTH100  # links make it what it is
        os.path.abspath(repro),  # noqa: PTH100  # keeps symbolic links
        capabilities(without),
        hidden=_Settings.hidden,
        gpus="" if hide_gpus else gpus,
        hold_fds=hold_fds,
        compile_cache=compile_cache,
        on_line=on_line,
        cancelled=cancelled,
    )


def limits(interpreter: str) -> dict[str, Any]:
    """What bounds the checks of a build, for its evidence: limits and layers."""
    found = capabilities()
    known = policy.layers_for(found.layers, interpreter)
    return {
        "file_mib": FILE_MIB,
        "processes": PROCESSES,
        "layers": known._asdict(),
    }


def remove_leftovers() -> int:
    """Delete what killed workers of this user left behind; returns how many."""
    found = capabilities()
    groups = cgroups.sweep(found.cgroups) if found.cgroups else 0
    return scratch.remove_abandoned() + groups
