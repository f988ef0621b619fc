"""Wheels of the packages that a repro's `stack` names, for another Python than ours.

Only what is small enough to be carried: never torch or what comes with it. pip fetches
them from the indexes that it is configured with, without their dependencies.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from portable import harness
from runner.builds import venvs
from runner.builds.install import is_repository

MB = 1_000_000
# One wheel; a pure one is hardly ever larger.
LARGEST_MB = 20
# All of them; the rest of the 60 MB is left to the repros.
TOGETHER_MB = 58
LIMIT_S = 300
# They come with torch, or are torch.
WITH_TORCH = ("torch", "triton", "pytorch-triton")
# What the machines run that have GPUs: tags of PyPA's perennial manylinux.
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")
PYTHON_TAG = re.compile(r"-(?:cp|pp)(\d)(\d+)-[^-]+-[^-]+\.whl$")

NEEDED = re.compile(r"Requires-Dist: ([A-Za-z0-9._-]+)")

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
    def mb(self) -> float:
        return self.path.stat().st_size / MB

    @property
    def needs(self) -> list[str]:
        """What it wants beside it, without torch: it is carried alone."""
        with zipfile.ZipFile(self.path) as file:
            (path,) = (n for n in file.namelist() if n.endswith(".dist-info/METADATA"))
            text = file.read(path).decode()
        found = {
            match.group(1).lower()
            for line in text.splitlines()
            if "extra ==" not in line
            if (match := NEEDED.match(line))
        }
        return sorted(found - set(WITH_TORCH))


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
    room = float(TOGETHER_MB)
    for at, requirement in enumerate(dict.fromkeys(wanted)):
        try:
            wheel = download(requirement, python, folder / str(at))
        except venvs.InstallError as error:
            say(f"Left out: {requirement}. {error.reason}")
            continue
        if wheel.mb > min(LARGEST_MB, room):
            why = "is too large" if wheel.mb > LARGEST_MB else "finds no more room"
            say(f"Left out: {requirement}, {wheel.mb:.0f} MB, {why}.")
            continue
        room -= wheel.mb
        found[requirement] = wheel
        needs = ", ".join(wheel.needs)
        beside = f"; has to be there: {needs}" if needs else ""
        say(f"{wheel.path.name}, {wheel.mb:.1f} MB{beside}")
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
    venvs.run_pip(command, {}, lambda text: None, LIMIT_S)
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
