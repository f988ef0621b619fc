"""Which runs answer for an environment: those of its versions, on its device.

A run of a repro with packages of its own is evidence for these packages on this torch,
and a clean one for its device alone. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from kb.choices import DEVICE_NAMES, Verdict
from kb.environments import hardware
from kb.environments.environment import Environment
from kb.versions.devices import CPU, CUDA, Holds, device_for, is_anywhere
from kb.versions.ranges import is_same_build, parse_version


class Run(Protocol):
    """What `Finding` says of a run; `kb.lookup.affecting` reads no more of it."""

    @property
    def build_raw(self) -> str: ...
    @property
    def device_class(self) -> str: ...
    @property
    def device_name(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def verdict_reason(self) -> str: ...
    @property
    def made_with(self) -> Mapping[str, Any]: ...


class Asked(NamedTuple):
    """Of a record what decides which runs count."""

    holds: Holds
    names_card: bool


def deciding(asked: Asked, env: Environment, runs: Iterable[Run]) -> Run | None:
    """The run that answers; that the bug was seen says more than that it was not."""
    judged = [
        run
        for run in runs
        if run.verdict in (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT)
        and is_same(run, env)
        and counts(run, asked, env)
    ]
    return min(judged, key=lambda run: run.verdict != Verdict.BUG_PRESENT, default=None)


def is_same(run: Run, env: Environment) -> bool:
    """The same build of torch, and the same version of every package of the repro."""
    return run.build_raw == env.torch_raw and has_packages(run, env)


def has_packages(run: Run, env: Environment) -> bool:
    packages = run.made_with.get("packages", {})
    return all(
        is_version(env.version(name), version, name)
        for name, version in packages.items()
    )


def is_version(installed: str | None, ran: str | None, package: str) -> bool:
    return bool(installed and ran) and is_same_build(
        parse_version(ran or "", package), parse_version(installed or "", package)
    )


def counts(run: Run, asked: Asked, env: Environment) -> bool:
    """Whether what the run showed on its device holds on the reader's."""
    device = device_for(env, asked.holds)
    if run.device_class == device:
        return device != CUDA or has_its_hardware(run, asked, env)
    return run.verdict == Verdict.BUG_PRESENT and is_anywhere(asked.holds)


def has_its_hardware(run: Run, asked: Asked, env: Environment) -> bool:
    """The card and the cuDNN of the run, where the record is about them."""
    of_library = asked.holds.get("why") == "library"
    if not (of_library or asked.names_card):
        return True
    capability = run.made_with.get("capability") or ""
    cards = {hardware.architecture(name) for name in env.gpus}
    if f"sm_{capability.replace('.', '')}" not in cards:
        return False
    installed = cudnn_release(env.version("cudnn"))
    ran = cudnn_release(run.made_with.get("cudnn"))
    return not of_library or (installed is not None and installed == ran)


def cudnn_release(version: str | None) -> tuple[int, ...] | None:
    """(9, 19, 0) of "9.19.0.56" and of "91900", as cuDNN counts since 9."""
    numbers = tuple(map(int, re.findall(r"\d+", version or "")[:3]))
    if len(numbers) == 1 and numbers[0] >= 90000:
        number = numbers[0]
        return number // 10000, number // 100 % 100, number % 100
    return numbers or None


def device_words(run: Run) -> str:
    """The device of a run: a GPU by its name."""
    if run.device_class == CPU:
        return DEVICE_NAMES[CPU]
    return run.device_name or DEVICE_NAMES[run.device_class]


def version_words(run: Run) -> str:
    """ "2.13.0+cpu with transformers 4.45.2": what a run was made with."""
    packages = run.made_with.get("packages", {})
    named = [f"{name} {version}" for name, version in packages.items()]
    return ", ".join([f"torch {run.build_raw}", *named])
