"""Installing a torch build into a place of its own, below BUILDS_DIR."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from runner import builds, harness, venvs
from runner.builds import BuildError, BuildPin
from runner.models import Installation
from runner.venvs import InstallError, Progress

# Index unreachable: say so soon. A slow download is not cut short by these.
IMPATIENT = ["--timeout", "15", "--retries", "1"]
LIMIT_S = 3600
NUMPY_1_UNTIL = (2, 3)
# torch.compile of 2.6.0 imports setuptools, 2.1.2 its pkg_resources (both run here);
# neither release names it as a dependency.
SETUPTOOLS_UNTIL = (2, 7)
RESERVE_MIB = 300


@dataclass(frozen=True)
class Attempt:
    """One way to get a torch: what pip is asked for, and from where."""

    name: str
    requirements: list[str]
    options: list[str] = field(default_factory=list)
    source: str = "the configured indexes"
    download_mib: int = 0
    disk_mib: int = 0


def has_nvidia_gpu() -> bool:
    """Whether the kernel's driver lists a GPU; nothing is initialised."""
    return any(Path("/proc/driver/nvidia/gpus").glob("*"))


def attempts_for_default(cuda: bool) -> Iterator[Attempt]:
    """The ways to the default build, in order.

    The CUDA wheel, more than ten times the size, only on a host with a GPU or when
    asked for.
    """
    pin = builds.default_build()
    yield attempt_for(pin)
    if settings.TORCH_INDEX_URL:
        options = ["--extra-index-url", settings.TORCH_INDEX_URL, *IMPATIENT]
        yield attempt_for(pin, options, "TORCH_INDEX_URL")
    if cuda or has_nvidia_gpu():
        yield attempt_for(builds.default_build("cuda"))


def attempt_for(
    pin: BuildPin, options: list[str] | None = None, source: str = Attempt.source
) -> Attempt:
    return Attempt(
        name=pin.slug,
        requirements=[f"torch=={pin.torch}", *pin.packages],
        options=options or [],
        source=source,
        download_mib=pin.download_mib,
        disk_mib=pin.disk_mib,
    )


def attempt_for_version(version: str, extra: list[str]) -> Attempt:
    """A release somebody names, with what it imports but does not ask for."""
    if not re.fullmatch(r"\d[0-9A-Za-z.+!_-]*", version):
        raise BuildError(f"{version!r} is not a torch version, such as 2.6.0.")
    release = harness.release(version)
    needs = ["numpy<2" if release < NUMPY_1_UNTIL else "numpy"]
    needs += ["setuptools<81"] if release < SETUPTOOLS_UNTIL else []
    url = settings.TORCH_INDEX_URL
    return Attempt(
        name=name_of(version, extra),
        requirements=[f"torch=={version}", *needs, *extra],
        options=["--extra-index-url", url, *IMPATIENT] if url else [],
    )


def name_of(version: str, extra: list[str]) -> str:
    """A folder's name: the version, and what else was asked for."""
    text = "-with-".join([version, *extra]).lower()
    return re.sub(r"[^a-z0-9._]+", "-", text).strip("-.")[:100]


def install(attempts: list[Attempt], progress: Progress) -> Path:
    """Make the environment by the first way that works; returns its Python.

    What an interrupted installation left is removed first. Raises BuildError with
    what was tried.
    """
    try:
        with venvs.lock(settings.BUILDS_DIR / venvs.LOCK_NAME):
            venvs.sweep(settings.BUILDS_DIR)
            return install_first(attempts, progress)
    except venvs.LockHeld as held:
        raise BuildError(
            f"process {held.owner} is installing a build: wait for it"
        ) from held


def install_first(attempts: list[Attempt], progress: Progress) -> Path:
    tried = []
    for attempt in attempts:
        folder = settings.BUILDS_DIR / attempt.name
        if venvs.python_of(folder).exists():
            return venvs.python_of(folder)
        try:
            require_space(attempt)
            with venvs.under_construction(folder):
                fill(folder, attempt, progress)
        except InstallError as error:
            reason = str(error).splitlines()[-1]
            tried.append(f"{attempt.requirements[0]} from {attempt.source}: {reason}")
            progress(f"  not from {attempt.source}: {reason}")
        else:
            return venvs.python_of(folder)
    raise BuildError("\n".join(tried) or "nothing to install")


def require_space(attempt: Attempt) -> None:
    needed = attempt.disk_mib + attempt.download_mib + RESERVE_MIB
    free = shutil.disk_usage(settings.BUILDS_DIR).free // 2**20
    if free < needed:
        raise InstallError(
            f"{settings.BUILDS_DIR} has {free} MiB free, {needed} MiB are needed"
        )


def fill(folder: Path, attempt: Attempt, progress: Progress) -> None:
    what = f"Installing {attempt.requirements[0]} from {attempt.source}"
    if attempt.download_mib:
        what += f" ({attempt.download_mib} MiB, {attempt.disk_mib} MiB on disk)"
    with venvs.timed(progress, what):
        venvs.create(folder)
        arguments = [*attempt.options, *attempt.requirements]
        venvs.pip_install(folder, arguments, progress, LIMIT_S)
    with venvs.timed(progress, "Compiling its bytecode"):
        venvs.compile_all(folder)


def add(attempts: list[Attempt], progress: Progress) -> Installation:
    """Install and register; an environment whose torch does not start is removed."""
    interpreter = install(attempts, progress)
    try:
        hello = builds.probe(interpreter)
    except BuildError:
        venvs.remove(interpreter.parent.parent)
        raise
    installation = builds.save(interpreter, hello, managed=True)
    progress(builds.describe(installation))
    return installation


def add_release(version: str, with_: list[str], progress: Progress) -> Installation:
    return add([attempt_for_version(version, with_)], progress)


def add_wheel(wheel: Path, with_: list[str], progress: Progress) -> Installation:
    """A build from a wheel file; what it depends on comes from the indexes."""
    wheel = wheel.expanduser().absolute()
    parts = wheel.name.split("-")
    if wheel.suffix != ".whl" or len(parts) < 5 or not wheel.is_file():
        raise BuildError(f"{wheel} is not a wheel file.")
    name = name_of(parts[1], with_)
    requirements = [str(wheel), "numpy", *with_]
    return add([Attempt(name, requirements, source="the file")], progress)
