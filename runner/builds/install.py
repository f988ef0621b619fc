"""Installing a torch build into a place of its own, below BUILDS_DIR."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from django.conf import settings

from kb import progress as pages
from portable import harness
from runner.builds import pins, probe, registry, venvs
from runner.builds.pins import BuildPin
from runner.builds.probe import BuildError, Probed
from runner.builds.venvs import InstallError, Progress
from runner.models import Installation

# Fail fast on an unreachable index; these do not limit a slow download.
FAIL_FAST = ["--timeout", "15", "--retries", "1"]
LIMIT_S = 3600
# Pause between two looks at how much is on disk.
WATCH_S = 1.0
MIB = 1024 * 1024
NUMPY_1_UNTIL = (2, 3)
# torch.compile of 2.6.0, 2.9.1 and 2.10.0 imports setuptools, 2.1.2 its pkg_resources
# (all run here); under Python 3.11 only 2.11.0 and later name it as a dependency.
SETUPTOOLS_UNTIL = (2, 11)
RESERVE_MIB = 300
# Of versions in the name of a folder; "==" is left out there.
SIGNS = {"<=": "le", ">=": "ge", "!=": "ne", "~=": "like", "<": "lt", ">": "gt"}


@dataclass(frozen=True)
class Attempt:
    """One way to get a torch: requirements, and the index they come from.

    `sources`: requirements from version control, which are built here. Sizes in MiB, 0
    where unknown. `torch`: its version where the name is the slug of that build, or "".
    """

    name: str
    requirements: list[str]
    sources: list[str] = field(default_factory=list)
    extra_index: str = ""
    source: str = "the configured indexes"
    download_mib: int = 0
    disk_mib: int = 0
    torch: str = ""

    @property
    def pip_options(self) -> list[str]:
        return ["--extra-index-url", self.extra_index, *FAIL_FAST] * bool(
            self.extra_index
        )


@dataclass(frozen=True)
class Installed:
    """A complete environment, and its probe if it was made just now."""

    interpreter: Path
    probed: Probed | None = None


def attempts_for_default(cuda: bool) -> Iterator[Attempt]:
    """Attempts for the default build, in order: from the configured indexes first.

    The CUDA wheel, more than ten times the size, only on a host with a GPU or if
    requested; there it comes before an index that nobody named.
    """
    pin = pins.default_build()
    yield attempt_for(pin)
    index = pins.torch_index() if venvs.may_ask_indexes() else ""
    if index and settings.TORCH_INDEX_URL:
        yield attempt_for(pin, index, "TORCH_INDEX_URL")
    if cuda or pins.has_nvidia_gpu():
        yield attempt_for(pins.default_build("cuda"))
    if index and not settings.TORCH_INDEX_URL:
        yield attempt_for(pin, index, "PyTorch's own index")


def attempt_for(
    pin: BuildPin, extra_index: str = "", source: str = Attempt.source
) -> Attempt:
    return Attempt(
        name=pin.slug,
        requirements=[f"torch=={pin.torch}", *pin.packages],
        extra_index=extra_index,
        source=source,
        download_mib=pin.download_mib,
        disk_mib=pin.disk_mib,
        torch=pin.torch,
    )


def index_for(version: str) -> str:
    """PyTorch's own index for a release that names its CPU wheel, such as 2.6.0+cpu.

    Without the mark it stays out: it would turn the usual wheel, with CUDA, into that.
    """
    if settings.TORCH_INDEX_URL or version.endswith("+cpu"):
        return pins.torch_index()
    return ""


def attempt_for_version(version: str, extra: list[str]) -> Attempt:
    """A release by version, with packages that it imports but does not require."""
    if not re.fullmatch(r"\d[0-9A-Za-z.+!_-]*", version):
        raise BuildError(f"{version!r} is not a torch version, such as 2.6.0.")
    release = harness.release(version)
    needs = ["numpy<2" if release < NUMPY_1_UNTIL else "numpy"]
    needs += ["setuptools<81"] if release < SETUPTOOLS_UNTIL else []
    wheels, sources = split_sources(extra)
    return Attempt(
        name=name_of(version, extra),
        requirements=[f"torch=={version}", *needs, *wheels],
        sources=sources,
        extra_index=index_for(version),
    )


def split_sources(extra: list[str]) -> tuple[list[str], list[str]]:
    """Requirements for wheels, and those built from a repository (git+https://...)."""
    for text in extra:
        if not text.strip() or text.startswith("-"):
            raise BuildError(f"{text!r} is not a requirement, such as peft==0.15.0.")
    sources = [text for text in extra if is_repository(text)]
    return [text for text in extra if text not in sources], sources


def is_repository(requirement: str) -> bool:
    return bool(re.match(r"(?:[\w.\[\],-]+\s*@\s*)?(?:git|hg|svn|bzr)\+", requirement))


def name_of(version: str, extra: list[str]) -> str:
    """The folder of a build: its version and the extra requirements."""
    text = "-with-".join([version, *map(short_name, extra)]).lower()
    for sign, word in SIGNS.items():
        text = text.replace(sign, f"-{word}-")
    return re.sub(r"[^a-z0-9._]+", "-", text).strip("-.")[:100]


def short_name(requirement: str) -> str:
    """A requirement, or the repository name and short revision of an address."""
    if not is_repository(requirement):
        return requirement
    address, _, revision = requirement.rpartition("@")
    if "//" in revision or not address:
        address, revision = requirement, ""
    name = address.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return f"{name}-{revision[:12]}"


def install(
    attempts: list[Attempt],
    progress: Progress,
    expect: Callable[[Attempt], None] | None = None,
) -> Installed:
    """Make the environment by the first attempt that works.

    Remains of an interrupted installation are removed first. Until torch has started in
    it, the new environment counts as incomplete. `expect` hears of each attempt before
    it is made. Raises BuildError with every attempt.
    """
    try:
        with venvs.lock(settings.BUILDS_DIR / venvs.LOCK_NAME):
            venvs.sweep(settings.BUILDS_DIR)
            return install_first(attempts, progress, expect)
    except venvs.LockHeld as held:
        raise BuildError(
            f"process {held.owner} is installing a build: wait for it"
        ) from held


def install_first(
    attempts: list[Attempt],
    progress: Progress,
    expect: Callable[[Attempt], None] | None,
) -> Installed:
    tried = []
    for attempt in attempts:
        folder = settings.BUILDS_DIR / attempt.name
        if venvs.python_of(folder).exists():
            progress(f"{attempt.name} is installed already")
            return Installed(venvs.python_of(folder))
        try:
            require_space(attempt.disk_mib + attempt.download_mib)
            if expect:
                expect(attempt)
            with venvs.under_construction(folder), on_pages(folder, attempt):
                return fill(folder, attempt, progress)
        except InstallError as error:
            tried.append(
                f"{attempt.requirements[0]} from {attempt.source}: {error.reason}"
            )
            progress(f"  not from {attempt.source}: {error.reason}")
    raise BuildError("\n".join(tried) or "nothing to install")


@contextmanager
def on_pages(folder: Path, attempt: Attempt) -> Iterator[None]:
    """Show on the site's pages how much of the environment is on disk."""
    ended = threading.Event()

    def watch(tell: pages.Tell) -> None:
        while not ended.is_set():
            tell(venvs.disk_bytes(folder) // MIB, attempt.disk_mib, attempt.name)
            ended.wait(WATCH_S)

    with pages.of(pages.Work.TORCH) as tell:
        watcher = threading.Thread(target=watch, args=[tell], daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def require_space(mib: int) -> None:
    needed = mib + RESERVE_MIB
    free = shutil.disk_usage(settings.BUILDS_DIR).free // 2**20
    if free < needed:
        raise InstallError(
            f"{settings.BUILDS_DIR} has {free} MiB free, {needed} MiB are needed"
        )


def fill(folder: Path, attempt: Attempt, progress: Progress) -> Installed:
    """Install packages, compile bytecode, and start torch once in the environment."""
    size = f"{attempt.download_mib} MiB to download, {attempt.disk_mib} MiB on disk"
    what = f"Installing {attempt.requirements[0]} from {attempt.source}"
    what += f" ({size})" if attempt.download_mib else ""
    with venvs.timed(progress, what):
        with_pip(folder, attempt, progress)
    with venvs.timed(progress, "Compiling its bytecode"):
        venvs.compile_all(folder)
    python = venvs.python_of(folder)
    with venvs.timed(progress, "Starting its torch"):
        probed = probe.probe(python)
    return Installed(python, probed)


def with_pip(folder: Path, attempt: Attempt, progress: Progress) -> None:
    # An environment with a pip of its own takes five seconds longer.
    runner = venvs.pip_runner()
    venvs.create(folder, pip=runner is None)
    # Beside what it becomes: /tmp may be small, and pages show what has come so far.
    downloads = folder / "downloads"
    downloads.mkdir()
    arguments = [*attempt.pip_options, *attempt.requirements]
    pip = partial(venvs.pip_install, folder, scratch=downloads, runner=runner)
    pip(arguments, progress, LIMIT_S)
    if attempt.sources:
        arguments += attempt.sources
        pip(arguments, progress, LIMIT_S, wheels_only=False)
    shutil.rmtree(downloads)


def add(
    attempts: list[Attempt],
    progress: Progress,
    with_: list[str] | None = None,
    agree: Callable[[Attempt], None] | None = None,
) -> Installation:
    """Install and register. `agree` may refuse an attempt. Raises BuildError."""

    def expect(attempt: Attempt) -> None:
        if agree:
            agree(attempt)
        if attempt.torch:
            python = venvs.python_of(settings.BUILDS_DIR / attempt.name)
            registry.expect(python, attempt.name, attempt.torch)

    try:
        installed = install(attempts, progress, expect)
        python, probed = installed.interpreter, installed.probed
        if probed is None:
            # Installed before: probed again, and not deleted if it is broken now.
            probed = probe.probe(python)
        installation = registry.save(python, probed, with_)
    finally:
        registry.expect_nothing()
    progress(registry.describe(installation))
    return installation


def add_release(version: str, with_: list[str], progress: Progress) -> Installation:
    return add([attempt_for_version(version, with_)], progress, with_)


def attempt_for_wheel(wheel: Path, with_: list[str]) -> Attempt:
    """Of a wheel file; its dependencies come from the indexes. Raises BuildError."""
    wheel = wheel.expanduser().absolute()
    parts = wheel.name.split("-")
    if wheel.suffix != ".whl" or len(parts) < 5 or not wheel.is_file():
        raise BuildError(f"{wheel} is not a wheel file.")
    name = name_of(unquote(parts[1]), with_)
    if venvs.python_of(settings.BUILDS_DIR / name).exists():
        raise BuildError(
            f"{name} is installed, and this file may be another of the same version. "
            f"Remove that one first: manage.py builds remove {name}"
        )
    wheels, sources = split_sources(with_)
    requirements = [str(wheel), "numpy", *wheels]
    return Attempt(name, requirements, sources, source="the file")
