"""What a comparison is between: a release that stands for its builds, or one build."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kb.environments.environment import Environment
from kb.models import TestedBuild
from kb.versions.order import release_of, tested_builds
from kb.versions.ranges import parse_version

# As it may stand in an address: a slug, or a version as torch prints it.
SIDE = r"[0-9A-Za-z][0-9A-Za-z+_-]*(?:\.[0-9A-Za-z+_-]+)*"
TYPED = re.compile(rf"(?:torch\s*(?:==|=|@)?\s*)?v?({SIDE})", re.IGNORECASE)
SERIES = re.compile(r"(\d+\.\d+)(?:\.[x*])?")
MAX_TYPED = 120


@dataclass(frozen=True)
class Side:
    """`name` stands in addresses; `raw` is the version that ranges are asked about.

    `builds`: slugs with a verdict, oldest version first. Empty where nothing was run.
    """

    name: str
    raw: str
    builds: tuple[str, ...]
    is_release: bool

    def env_of(self, device: str, installed: Environment) -> Environment:
        """What documents are asked about: this torch beside what is installed."""
        env = replace(installed, torch_raw=self.raw, device=device, contradicting=())
        return replace(env, is_cpu_build=env.is_cpu_build and not device)


def releases(builds: Iterable[TestedBuild]) -> dict[str, Side]:
    """Each release that was tested, with its builds, in the order of `builds`."""
    by_name: dict[str, list[str]] = {}
    for row in builds:
        if name := release_of(row.raw):
            by_name.setdefault(name, []).append(row.slug)
    return {
        name: Side(name, name, tuple(slugs), is_release=True)
        for name, slugs in by_name.items()
    }


def find(text: str, builds: list[TestedBuild] | None = None) -> Side | None:
    """The build or release that a text names; None where it names none.

    A series ("2.13") is the newest release of it that was tested. A release that
    nobody tested is a side without builds: what is documented may still be asked.
    """
    typed = TYPED.fullmatch(text.strip())
    if typed is None or len(text) > MAX_TYPED:
        return None
    name = typed[1]
    builds = tested_builds() if builds is None else builds
    known = releases(builds)
    if name in known:
        return known[name]
    for row in builds:
        if name in (row.slug, row.raw):
            return Side(row.slug, row.raw, (row.slug,), is_release=False)
    if series := SERIES.fullmatch(name):
        newest = [one for one in known if one.startswith(f"{series[1]}.")][-1:]
        return known[newest[0]] if newest else untested(f"{series[1]}.0")
    return untested(name)


def previous(side: Side, builds: list[TestedBuild]) -> Side | None:
    """The release that was tested before this one; None of a single build."""
    known = list(releases(builds).values())
    at = known.index(side) if side in known else 0
    return known[at - 1] if at else None


def untested(name: str) -> Side | None:
    version = parse_version(name)
    if not version.is_orderable or version.version is None:
        return None
    if len(version.version.release) < 2:
        return None
    return Side(name, name, (), is_release=release_of(name) == name)
