"""Versions as builds name themselves, and their place in a range of OSV events. Pure.

`packaging.specifiers` is not used: a specifier `<2.6` excludes 2.6.0a0 and every
nightly of 2.6.0, which is where such bugs live.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from packaging.version import InvalidVersion, Version

AFFECTED, NOT_AFFECTED, UNKNOWN = "affected", "not_affected", "unknown"

NV = re.compile(r"(?<![0-9a-z])nv(\d{2})\.(\d{1,2})(?!\d)")
# 2.6.0a0+df5bbc09d1, …+gitdf5bbc0, …+das1.1.git1a2b3c4, …@df5bbc09d1, a bare commit.
COMMIT = re.compile(
    r"(?:^|@|/(?:archive|commit|tree|tarball|zipball)/|\+(?:git|g)?|[.-]git"
    r"|[.+-]g(?=[0-9a-f]*\d))([0-9a-f]{7,40})(?![0-9a-z])"
)
DATE = re.compile(r"20[12]\d[01]\d[0-3]\d")
# 2.6.0-cu124, as builds are called where "+" may not stand.
DASHED_LOCAL = re.compile(r"(?<=\d)-?(?=(?:cpu|cu\d{2,3}|rocm[\d.]+|xpu)$)")
SERIES = re.compile(r"v?(\d+)\.(\d+)(?:\.[x*])?(?:\+.*)?", re.IGNORECASE)
# What follows the "+" in builds of torch that carry its own code: others are forks.
OWN_LOCAL = re.compile(
    r"(?:cpu|cu\d{2,3}|cuda\d*|rocm\d*|xpu|cxx11|with|pypi|computecanada|debian|gitunknown"
    r"|post\d*|dev\d*|nv\d{2}|(?:git|g)?[0-9a-f]{7,40})(?:[.]|$)"
)
FIRST_DATE = 20_000_000
# Torch 2.0 was 1.14 while it was made.
MINORS_BEFORE_2 = 14


@dataclass(frozen=True)
class BuildVersion:
    """What a version says of a build. `raw` stands as it was written.

    `nv` is the month of an NVIDIA container, as (25, 1): Version("…nv25.01") keeps
    only nv25.1. `commit` is the source's, where the version names one. `is_series` is
    a release number of torch without its last part, which names no release.
    """

    raw: str
    version: Version | None
    nv: tuple[int, int] | None = None
    commit: str | None = None
    is_series: bool = False
    is_fork: bool = False

    @cached_property
    def public(self) -> Version | None:
        """Without the part after "+", by which nothing may be ordered."""
        return Version(self.version.public) if self.version else None

    @property
    def is_alpha(self) -> bool:
        """Main between two release branches, as NVIDIA's containers are."""
        pre = self.version.pre if self.version else None
        return pre is not None and pre[0] == "a"

    @property
    def is_orderable(self) -> bool:
        """False where the number does not say what the build contains.

        Those are builds from source (alphas, containers, versions that name a
        commit after the "+"), builds of a vendor's own branch, and series.
        """
        from_source = self.is_alpha or self.nv or self.commit or self.is_fork
        return bool(self.version) and not (from_source or self.is_series)


# One environment is compared with every record, and records share their bounds.
@lru_cache(maxsize=4096)
def parse_version(raw: str, package: str = "torch") -> BuildVersion:
    """Any package's version, also one that is an address of a commit."""
    text = DASHED_LOCAL.sub("+", raw.strip())
    nv, commit = NV.search(text.lower()), COMMIT.search(text.lower())
    is_torch = package == "torch"
    series = SERIES.fullmatch(text) if is_torch else None
    try:
        if is_torch and text.isdecimal():
            raise InvalidVersion(text)  # any release of its line
        version = Version(f"{series[1]}.{series[2]}.0" if series else text)
    except InvalidVersion:
        version = None
    local = version.local if version else None
    return BuildVersion(
        raw=raw.strip(),
        version=version,
        nv=(int(nv[1]), int(nv[2])) if nv else None,
        commit=commit[1] if commit and not DATE.fullmatch(commit[1]) else None,
        is_series=bool(series),
        is_fork=is_torch and bool(local) and not OWN_LOCAL.match(local or ""),
    )


def is_same_build(listed: BuildVersion, installed: BuildVersion) -> bool:
    """The same text, the same commit, the same container, or a plain release."""
    if listed.raw.lower() == installed.raw.lower():
        return True
    if listed.nv and installed.nv and listed.nv != installed.nv:
        return False
    if listed.commit and installed.commit:
        return same_commit(listed.commit, installed.commit)
    if listed.nv and installed.nv and None in (listed.version, installed.version):
        return True  # an image that is only known by its month
    if listed.public is None or listed.public != installed.public:
        return False
    if listed.nv or installed.nv:
        return listed.nv == installed.nv
    # A listed "2.5.0" speaks of the release, whatever CUDA it was built for.
    plain = listed.version is not None and listed.version.local is None
    return plain and installed.is_orderable and not listed.is_series


def same_commit(left: str, right: str) -> bool:
    return left.startswith(right) or right.startswith(left)


Timeline = list[tuple[str, str]]


def in_range(events: Iterable[Mapping[str, str]], build: BuildVersion) -> str:
    """What a timeline of OSV events says of a build."""
    timeline = [(kind, text) for event in events for kind, text in event.items()]
    if not timeline:
        return UNKNOWN
    if all(entry == ("introduced", "0") for entry in timeline):
        return AFFECTED
    version = build.public
    if version is None:
        return UNKNOWN
    try:
        timeline.sort(key=event_order)
        if build.is_series:
            return in_series(timeline, version)
        if build.is_alpha and not build.is_fork:
            return between_releases(timeline, version)
        return walk(timeline, version) if build.is_orderable else UNKNOWN
    except InvalidVersion:
        return UNKNOWN  # a range between commits


@lru_cache(maxsize=4096)
def bound_of(text: str) -> Version:
    """The version of an event. Raises InvalidVersion for a commit."""
    return Version(text)


def event_order(event: tuple[str, str]) -> tuple[Version, int]:
    kind, text = event
    # At one version a bug is fixed before it is introduced again, and
    # last_affected still holds that version itself.
    return bound_of(text), ("fixed", "introduced", "last_affected").index(kind)


def walk(timeline: Timeline, version: Version) -> str:
    answer = NOT_AFFECTED
    for kind, text in timeline:
        bound = bound_of(text)
        if kind == "introduced":
            if text == "0" or version >= bound:
                answer = AFFECTED
            elif is_before_release(version, bound):
                answer = UNKNOWN
        elif kind == "last_affected":
            if without_post(version) > bound:
                answer = UNKNOWN if is_soon_after(version, bound) else NOT_AFFECTED
        elif version >= bound:
            answer = UNKNOWN if is_beside(version, bound) else NOT_AFFECTED
        elif is_undated(version) and is_before_release(version, bound):
            answer = UNKNOWN if answer == AFFECTED else answer
    return answer


def is_before_release(version: Version, bound: Version) -> bool:
    """A nightly or candidate of the release at which the bug comes or goes."""
    of_this = version.is_prerelease and minor_of(version) == minor_of(bound)
    return of_this and version.micro == bound.micro and not bound.is_prerelease


def is_undated(version: Version) -> bool:
    """4.50.0.dev0 is main at any time before 4.50.0."""
    return version.dev is not None and version.dev < FIRST_DATE


def is_soon_after(version: Version, bound: Version) -> bool:
    """A pre-release of the next release: the fix may not have been made yet."""
    if not version.is_prerelease:
        return False
    return version.major != bound.major or version.minor - bound.minor < 2


def is_beside(version: Version, bound: Version) -> bool:
    """Made while a patch release got the fix: main may not have had it yet."""
    return bool(bound.micro) and is_soon_after(version, bound)


def without_post(version: Version) -> Version:
    """A post-release carries the code of its release."""
    if version.post is None or version.is_devrelease:
        return version
    return Version(version.public.partition(".post")[0])


def in_series(timeline: Timeline, first: Version) -> str:
    """Of torch 2.5 without more: what holds for each of its releases."""
    for kind, text in timeline:
        bound = bound_of(text)
        inside = minor_of(bound) == minor_of(first)
        if inside and (kind == "last_affected" or bound.micro or bound.is_prerelease):
            return UNKNOWN
    return walk(timeline, first)


def between_releases(timeline: Timeline, version: Version) -> str:
    """Of torch 2.6.0a0, main between two release branches: what is sure by its number.

    The number is raised some time after a branch is cut, so that 2.6.0a0 may be main
    before or after the release it names by almost one. Sure is therefore only what
    holds from the release before to the release after: no bound may lie there.
    """
    mine = minor_of(version)
    for _kind, text in timeline:
        theirs = minor_of(bound_of(text))
        if text != "0" and (theirs[0] != mine[0] or abs(theirs[1] - mine[1]) < 2):
            return UNKNOWN
    return walk(timeline, Version(f"{version.major}.{version.minor}.0"))


def minor_of(version: Version) -> tuple[int, int]:
    """(line, count of the release in it); 1.x and 2.x of torch are one line."""
    if version.major == 1:
        return 2, version.minor
    if version.major == 2:
        return 2, version.minor + MINORS_BEFORE_2
    return version.major, version.minor
