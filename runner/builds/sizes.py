"""How much an attempt is to download and on disk, and whether somebody wants that."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from runner.builds import pins, venvs
from runner.builds.install import Attempt
from runner.builds.probe import BuildError
from runner.builds.venvs import Progress

# A larger download is asked for. The wheel for CPUs is smaller, that with CUDA larger.
ASK_ABOVE_MIB = 500
UNASKED = (
    "Nothing was downloaded: more than {} MiB are asked for first, and nobody can "
    "answer here. Pass --yes."
)


@dataclass(frozen=True)
class Priced:
    """An attempt with its sizes, and what they rest on in words for a terminal."""

    attempt: Attempt
    said: str


def of(attempt: Attempt) -> Priced:
    """An attempt with the sizes of its wheels, as far as they can be told before."""
    links = venvs.pip_settings().get("find-links", "").split()
    if local := torch_among(links, attempt.requirements[0]):
        return Priced(attempt, f"torch {local} is among pip's find-links")
    return estimated(attempt)


def torch_among(find_links: list[str], requirement: str) -> str:
    """The version of torch that pip would take from its find-links; "" if none."""
    try:
        requested = Requirement(requirement)
    except InvalidRequirement:
        return ""  # a file
    supported, versions = set(sys_tags()), []
    for folder in filter(Path.is_dir, map(folder_of, find_links)):
        for path in folder.glob("torch-*.whl"):
            with contextlib.suppress(InvalidWheelFilename):
                _, version, _, tags = parse_wheel_filename(path.name)
                if version in requested.specifier and tags & supported:
                    versions.append(version)
    best = max(versions, default=None)
    return str(best) if best else ""


def folder_of(link: str) -> Path:
    return Path(unquote(urlsplit(link).path) if link.startswith("file:") else link)


def estimated(attempt: Attempt) -> Priced:
    """By what was pinned for it, else by the pinned wheel for CPUs or with CUDA."""
    if attempt.download_mib:
        return Priced(attempt, sizes_of(attempt))
    is_for_cpus = "+cpu" in attempt.requirements[0] or sys.platform != "linux"
    pin = pins.default_build("default" if is_for_cpus else "cuda")
    attempt = replace(attempt, download_mib=pin.download_mib, disk_mib=pin.disk_mib)
    said = f"about {sizes_of(attempt)}, as torch {pin.torch} took"
    return Priced(attempt, said)


def sizes_of(attempt: Attempt) -> str:
    return f"{attempt.download_mib} MiB to download and {attempt.disk_mib} MiB on disk"


def asking(say: Progress, *, yes: bool) -> Callable[[Attempt], None]:
    """What `install` calls before each attempt: asks for a large download.

    `yes`: it is announced only. It raises BuildError where nobody agrees.
    """

    def ask(attempt: Attempt) -> None:
        found = of(attempt)
        if found.attempt.download_mib <= ASK_ABOVE_MIB:
            return
        say(f"{attempt.requirements[0]}: {found.said}.")
        if yes:
            return
        if not sys.stdin.isatty():
            raise BuildError(UNASKED.format(ASK_ABOVE_MIB))
        say("Go on? [y/N]")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise BuildError("Nothing was downloaded.")

    return ask
