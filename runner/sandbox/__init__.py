"""Starts the checks of a repro in the strongest sandbox that this machine has.

Its layers are probed, never assumed, and recorded with every run: see `tiers`. Standard
library only. `runner/sandbox/jail` executes on the way into the sandbox.

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
from runner.sandbox.probes import Capabilities
from runner.sandbox.scratch import scratch_folder
from runner.sandbox.tiers import (
    LAYERS,
    SHARED_ROOT,
    SWITCHES,
    TIERS,
    Layers,
    Tier,
    evidence_tier,
    layer_words,
    stored_tier,
)


class _Settings:
    """Settings of the deployment, for the whole process."""

    without: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    allow_shared_root = False


def configure(
    without: Iterable[str] = (),
    hidden: Iterable[str] = (),
    *,
    allow_shared_root: bool = False,
) -> None:
    """Set the layers that must not be used and the folders that no run may see.

    `allow_shared_root`: whether a run may be root, as the worker is, where there are no
    namespaces: the machine may be thrown away. Raises ValueError for an unknown layer.
    """
    _Settings.without = probes.checked_names(without)
    _Settings.hidden = tuple(hidden)
    _Settings.allow_shared_root = allow_shared_root


def capabilities(without: Iterable[str] | None = None) -> Capabilities:
    """The layers that work here, probed once in each process."""
    return probes.capabilities(_Settings.without if without is None else without)


def tier(without: Iterable[str] | None = None) -> Tier:
    """The sandbox tier of this machine, why it is no better, and what would help."""
    available = capabilities(without)
    if available.nothing:
        return TIERS["E"]
    reasons = dict(available.reasons)
    if available.layers.uid == SHARED_ROOT:
        known = [reasons["uid"]] if "uid" in reasons else []
        allowed = "allowed here" if _Settings.allow_shared_root else "refused here"
        reasons["uid"] = "; ".join([allowed, *known])
    return tiers.describe(available.layers, reasons)


def reaches(required: str) -> bool:
    """Whether this machine has at least the tier `required`."""
    return tiers.reaches(tier().tier, required)


def start_in(
    interpreter: str,
    repro: str,
    *,
    compile_cache: str = "",
    compile_seed: str = "",
    compile_caches: str = "",
    on_line: Callable[[str, str, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    gpus: str | None = None,
    hold_fds: Sequence[int] = (),
    without: Iterable[str] | None = None,
) -> ColdStart:
    """A Start for `harness.drive`: each check a fresh process under `interpreter`.

    `repro`: path of the source. Relative paths, also of the interpreter, are resolved
    here, because a check has another working folder. `on_line(check, stream, text)`
    receives its output as it comes; `cancelled` is polled about ten times a second.
    `compile_cache`: a folder shared by checks with needs = ["compiler"].
    `compile_seed`: what it began with, for a warm parent to read. `compile_caches`: the
    folder above those of all repros of this build, which may then share a warm parent.
    `gpus`: CUDA_VISIBLE_DEVICES, "" for none, None for unchanged. `hold_fds`:
    descriptors that init keeps open until the last process of a check is gone; the
    check has none.
    """
    return ColdStart(
        os.path.abspath(interpreter),  # noqa: PTH100  # links make it what it is
        os.path.abspath(repro),  # noqa: PTH100  # keeps symbolic links
        capabilities(without),
        hidden=_Settings.hidden,
        gpus=gpus,
        hold_fds=hold_fds,
        compile_cache=compile_cache,
        compile_seed=compile_seed,
        compile_caches=compile_caches,
        on_line=on_line,
        cancelled=cancelled,
        allow_shared_root=_Settings.allow_shared_root,
    )


def limits(interpreter: str) -> dict[str, Any]:
    """Limits and layers of the checks of a build, for its evidence."""
    layers = policy.layers_for(capabilities().layers, interpreter)
    return {
        "file_mib": FILE_MIB,
        "processes": PROCESSES,
        "layers": layers._asdict(),
    }


def remove_leftovers() -> int:
    """Delete folders and cgroups of this user's killed workers; returns how many."""
    available = capabilities()
    groups = cgroups.sweep(available.cgroups) if available.cgroups else 0
    return scratch.remove_abandoned() + groups
