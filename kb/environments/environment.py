"""The installed packages, parsed from whatever a reader pastes. Pure.

Understood: pip freeze, pip list (also as JSON) and pip show, uv, conda list and
conda's files, lock files, requirements, the reports of collect_env (also vLLM's),
transformers, accelerate, DeepSpeed and Lightning, nvidia-smi, container images,
"- PyTorch: 2.6.0+cu124" in English and Chinese, a bare version. A version is kept as
it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kb.environments.package_lines import VERSION, Package, canonical
from kb.environments.report import LINE_CHARS, Reader

MAX_GPUS = 8
REQUIRED = "filelock typing-extensions sympy networkx jinja2 fsspec mpmath markupsafe"
ASKED_BY_TORCH = frozenset(REQUIRED.split())
# Reports such as that of `diffusers-cli env`, and files of pins, name fewer.
FEW, MANY = 3, 30
CUDNN = "nvidia-cudnn-cu"
# What print(torch.__version__) gives, and what may stand beside: CUDA's and cuDNN's.
BARE = re.compile(
    rf"[('\"]{{0,2}}({VERSION})['\"]?"
    r"(?:[, ]{1,2}['\"]?(?:\d[\d.]{0,8}|True|False|None)['\"]?){0,3}\)?",
    re.IGNORECASE,
)
SERIES = re.compile(r"v?\d+\.\d+")


def family(package: str) -> str:
    """The canonical name; of the wheels of cuDNN the one name that they share."""
    name = canonical(package)
    return "cudnn" if name.startswith(CUDNN) else name


@dataclass(frozen=True)
class Environment:
    """Versions as written, by canonical package name; torch's stands apart."""

    torch_raw: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    # The first GPU named, and all of them.
    gpu: str | None = None
    unparsed_lines: int = 0
    # freeze | collect_env | conda; None where nothing was found
    kind: str | None = None
    gpus: tuple[str, ...] = ()
    # A build of torch without GPU support, where the report says so.
    is_cpu_build: bool = False
    # Such a build for macOS has MPS.
    is_mac: bool = False
    # cpu, cuda, rocm, npu or mps, where it is named without a card: "mps:0".
    device: str = ""
    # Every installed package is listed: one that is not named is not there.
    is_complete: bool = False
    # Versions of torch that contradict each other: then none of them stands above.
    contradicting: tuple[str, ...] = ()

    @property
    def is_given(self) -> bool:
        return bool(self.torch_raw or self.packages)

    def version(self, package: str) -> str | None:
        """The version of `package` as written, None where it was not pasted."""
        name = family(package)
        if name == "torch":
            return self.torch_raw
        return self.packages.get(name) or next(
            (raw for key, raw in self.packages.items() if family(key) == name), None
        )

    def without(self, package: str) -> Environment:
        """This environment, as if nothing had named the package."""
        if canonical(package) == "torch":
            return replace(self, torch_raw=None, contradicting=())
        left = {k: v for k, v in self.packages.items() if k != canonical(package)}
        return replace(self, packages=left)

    def merged(self, other: Environment) -> Environment:
        """This environment, completed by what only `other` says."""
        says_torch = bool(self.torch_raw or self.contradicting)
        return Environment(
            torch_raw=self.torch_raw if says_torch else other.torch_raw,
            contradicting=self.contradicting if says_torch else other.contradicting,
            packages={**other.packages, **self.packages},
            gpu=self.gpu or other.gpu,
            unparsed_lines=self.unparsed_lines,
            kind=self.kind or other.kind,
            gpus=self.gpus or other.gpus,
            device=self.device or other.device,
            is_complete=self.is_complete or other.is_complete,
            is_cpu_build=self.is_cpu_build
            or (not self.torch_raw and other.is_cpu_build),
            is_mac=self.is_mac or other.is_mac,
        )


def parse_environment(text: str, *, stop_at_unparsed: bool = False) -> Environment:
    """Every line counts: what is not understood is in `unparsed_lines`."""
    bare = BARE.fullmatch(text.strip()) if len(text) < LINE_CHARS else None
    if bare:
        return Environment(torch_raw=bare[1], kind="freeze")
    reader = Reader(strict=False).read(text, stop_at_unparsed=stop_at_unparsed)
    return environment_of(reader)


def only_environment(text: str) -> Environment | None:
    """The environment, if every line of `text` is part of its description."""
    found = parse_environment(text, stop_at_unparsed=True)
    return found if found.is_given and not found.unparsed_lines else None


def find_environment(log: str) -> Environment:
    """The environment that a log states plainly."""
    return environment_of(Reader(strict=True).read(log))


def of_packages(packages: Iterable[Package]) -> Environment:
    """What sentences state; a package that has two versions there has none."""
    versions, _dropped = resolved(packages)
    return Environment(torch_raw=versions.pop("torch", None), packages=versions)


def environment_of(reader: Reader) -> Environment:
    packages, dropped = resolved(reader.packages)
    contradicting = contradictions(reader.packages)
    torch = packages.pop("torch", None)
    gpus = tuple(dict.fromkeys(reader.gpus))[:MAX_GPUS]
    return Environment(
        torch_raw=None if contradicting else torch,
        contradicting=contradicting,
        packages=packages,
        gpu=gpus[0] if gpus else None,
        unparsed_lines=0 if reader.strict else reader.unparsed + dropped,
        kind=(reader.kind or "freeze") if reader.packages else None,
        gpus=gpus,
        is_cpu_build=reader.is_cpu_build,
        is_mac=reader.is_mac,
        device=reader.device,
        is_complete=is_complete(reader),
    )


def is_complete(reader: Reader) -> bool:
    """Whether all that is installed was listed, as `pip freeze` and locks do.

    Such a list has what torch itself asks for, which nobody writes by hand, or is
    longer than the reports that choose what they name.
    """
    if reader.kind == "collect_env":
        return False
    names = {canonical(package.name) for package in reader.packages}
    own = {name for name in names if not name.startswith("nvidia-")}
    return len(own & ASKED_BY_TORCH) >= FEW or len(own) >= MANY


def resolved(packages: Iterable[Package]) -> tuple[dict[str, str], int]:
    """One version per package, and the number of packages left without one.

    A sure version outweighs an unsure one. Of several sure ones the first counts:
    collect_env gives torch.__version__ before the version that pip has. A package
    whose unsure versions contradict each other is left out.
    """
    by_name: dict[str, tuple[list[str], list[str]]] = {}
    for package in packages:
        sure, unsure = by_name.setdefault(canonical(package.name), ([], []))
        (sure if package.is_sure else unsure).append(as_released(package))
    versions: dict[str, str] = {}
    for name, (sure, unsure) in by_name.items():
        chosen = most_specific(sure or unsure)
        if sure or all(is_same(chosen, other) for other in unsure):
            versions[name] = chosen if not sure else most_specific([*sure, *unsure])
    return versions, len(by_name) - len(versions)


def contradictions(packages: Iterable[Package]) -> tuple[str, ...]:
    """The releases of torch that two installers name, where they are not one."""
    sure = [
        as_released(package)
        for package in packages
        if package.is_sure and canonical(package.name) == "torch"
    ]
    releases = {release_of(version): version for version in reversed(sure)}
    releases.pop("", None)
    one = all(
        is_same(first, other) or is_same(other, first)
        for first in releases.values()
        for other in releases.values()
    )
    return () if one else tuple(reversed(releases.values()))


def as_released(package: Package) -> str:
    """Its version without what a lister adds; "+gitunknown" is Debian's."""
    return package.version.removesuffix("+gitunknown").removeprefix("v")


def release_of(version: str) -> str:
    """Without the part after "+"; "" for an address."""
    return "" if "/" in version else version.partition("+")[0]


def most_specific(versions: list[str]) -> str:
    """The first, or one that says the same and more: 2.5.1+cu124 after 2.5.1."""
    chosen = versions[0]
    for version in versions[1:]:
        if version != chosen and is_same(version, chosen):
            chosen = version
    return chosen


def is_same(version: str, other: str) -> bool:
    """`version` says at least what `other` says."""
    more = version[len(other) :]
    if not version.startswith(other):
        return False
    is_series = bool(SERIES.fullmatch(other)) and more.startswith(".")
    return not more or more.startswith("+") or "+" in other or is_series
