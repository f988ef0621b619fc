"""How much an attempt is to download and on disk, and whether somebody wants that."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from runner.builds import pins, venvs
from runner.builds.install import Attempt
from runner.builds.pins import BuildPin
from runner.builds.probe import BuildError
from runner.builds.venvs import Progress

# A larger download is asked for. The wheel for CPUs is smaller, that with CUDA larger.
ASK_ABOVE_MIB = 500
UNASKED = (
    "Nothing was downloaded: more than {} MiB are asked for first, and nobody can "
    "answer here. Pass --yes."
)


def of(attempt: Attempt) -> tuple[int, str]:
    """MiB to download, as far as that can be told before, and in words why.

    By what was pinned for it, else by the pinned wheel for CPUs or with CUDA.
    """
    links = venvs.pip_settings().get("find-links", "").split()
    if local := torch_among(links, attempt.requirements[0]):
        return attempt.download_mib, f"torch {local} is among pip's find-links"
    if attempt.download_mib:
        return attempt.download_mib, sizes_of(attempt)
    is_for_cpus = "+cpu" in attempt.requirements[0] or sys.platform != "linux"
    pin = pins.default_build("default" if is_for_cpus else "cuda")
    return pin.download_mib, f"about {sizes_of(pin)}, as torch {pin.torch} took"


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


def sizes_of(wheel: Attempt | BuildPin) -> str:
    return f"{wheel.download_mib} MiB to download and {wheel.disk_mib} MiB on disk"


def asking(say: Progress, *, yes: bool) -> Callable[[Attempt], None]:
    """What `install` calls before each attempt: asks for a large download.

    `yes`: it is announced only. It raises BuildError where nobody agrees.
    """

    def ask(attempt: Attempt) -> None:
        mib, said = of(attempt)
        if mib <= ASK_ABOVE_MIB:
            return
        say(f"{attempt.requirements[0]}: {said}.")
        if yes:
            return
        if not sys.stdin.isatty():
            raise BuildError(UNASKED.format(ASK_ABOVE_MIB))
        say("Go on? [y/N]")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise BuildError("Nothing was downloaded.")

    return ask
