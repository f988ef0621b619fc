"""Wheels of the packages that a repro's `stack` names, for another Python than ours.

Only what is small enough to be carried: never torch or what comes with it. pip fetches
them from the indexes that it is configured with, without their dependencies.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from runner import harness
from runner.builds import venvs
from runner.builds.install import is_repository

MIB = 1024 * 1024
# One wheel; a pure one is hardly ever larger.
LARGEST_MIB = 20
# All of them; the rest of the 60 MiB is left to the repros.
TOGETHER_MIB = 56
LIMIT_S = 300
# They come with torch, or are torch.
WITH_TORCH = ("torch", "triton", "pytorch-triton")
# What the machines run that have GPUs: tags of PyPA's perennial manylinux.
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")
PYTHON_TAG = re.compile(r"-(?:cp|pp)(\d)(\d+)-[^-]+-[^-]+\.whl$")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wheel:
    """A file that pip downloaded. `requirement`: for which it was asked."""

    path: Path
    requirement: str

    @cached_property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"

    @property
    def python(self) -> str:
        """ "3.12", or "any" of one that any Python can load."""
        found = PYTHON_TAG.search(self.path.name)
        if not found or "-abi3-" in self.path.name:
            return "any"
        return ".".join(found.groups())

    @property
    def mib(self) -> float:
        return self.path.stat().st_size / MIB


def requirements(source: str) -> list[str]:
    """What a repro's stack asks for, as pip reads it: ["transformers==4.34.1"]."""
    header = harness.parse_header(source)
    names = [harness.parse_dependency(text)[0] for text in header.dependencies]
    own = [name for name in names if name.lower() not in WITH_TORCH]
    return [
        version if is_repository(version) else f"{distribution(module, own)}=={version}"
        for module, version in header.stack.items()
        if module.partition(".")[0] not in WITH_TORCH
    ]


def distribution(module: str, dependencies: list[str]) -> str:
    """The package that a module is of: "nvidia-cudnn-frontend" of "cudnn"."""
    root = module.partition(".")[0]
    alike = [name for name in dependencies if name.replace("-", "_").lower() == root]
    return (alike or (dependencies if len(dependencies) == 1 else [root]))[0]


def fetch(
    wanted: Iterable[str], python: str, folder: Path, say: Say
) -> dict[str, Wheel]:
    """The wheels by requirement; what cannot be carried is said and left out.

    `wanted`: the most wanted first; what comes once there is no more room is left out.
    """
    found: dict[str, Wheel] = {}
    room = float(TOGETHER_MIB)
    for at, requirement in enumerate(dict.fromkeys(wanted)):
        try:
            wheel = download(requirement, python, folder / str(at))
        except venvs.InstallError as error:
            say(f"Left out: {requirement}. {error}")
            continue
        if wheel.mib > min(LARGEST_MIB, room):
            say(f"Left out: {requirement}, {wheel.mib:.0f} MiB, is too large.")
            continue
        room -= wheel.mib
        found[requirement] = wheel
        say(f"{wheel.path.name}, {wheel.mib:.1f} MiB")
    return found


def download(requirement: str, python: str, folder: Path) -> Wheel:
    """One wheel by pip, without its dependencies. Raises InstallError."""
    if is_repository(requirement):
        raise venvs.InstallError("It is built from a repository: install it there.")
    machine = platform.machine()
    platforms = [f"--platform={name}_{machine}" for name in PLATFORMS]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--only-binary=:all:", f"--python-version={python}"]
    command += ["--progress-bar=off", f"--dest={folder}", *platforms, requirement]
    venvs.run_installer("pip", command, {}, lambda text: None, LIMIT_S)
    (path,) = folder.glob("*.whl")
    return Wheel(path, requirement)


def by_repro(
    stacks: Mapping[int, list[str]], found: Mapping[str, Wheel]
) -> dict[int, list[str]]:
    """Names of the wheels of each repro, by its id."""
    return {
        key: [found[text].path.name for text in wanted if text in found]
        for key, wanted in stacks.items()
    }
