"""Builds in the order of their releases, and the names of their columns."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from kb.models import TestedBuild


# A page of many records asks thousands of times about a few builds.
@lru_cache(maxsize=4096)
def build_order(raw: str, slug: str) -> tuple[Version, str]:
    """A sort key for builds: the version torch reports, then the slug.

    Display order only: two builds of one pre-release sort by their local part,
    which says nothing of their age (kb.versions.affected decides what is affected).
    """
    try:
        return Version(raw), slug
    except InvalidVersion:
        return Version("0"), slug


def tested_builds() -> list[TestedBuild]:
    """Builds with a fresh verdict on a published record, oldest version first."""
    rows = TestedBuild.objects.all()
    return sorted(rows, key=lambda row: build_order(row.raw, row.slug))


def column_labels(builds: dict[str, str]) -> dict[str, str]:
    """The release number where it names one build, else the whole slug."""
    releases = {slug: release_of(raw) for slug, raw in builds.items()}
    counts = Counter(releases.values())
    return {
        slug: release if release and counts[release] == 1 else slug
        for slug, release in releases.items()
    }


def release_of(raw: str) -> str:
    """ "2.6.0" of "2.6.0+cu124"; "" for a pre-release, which is no release."""
    public = raw.split("+")[0]
    try:
        return "" if Version(public).is_prerelease else public
    except InvalidVersion:
        return ""
