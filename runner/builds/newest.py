"""The newest releases on the package indexes that this site lacks."""

from __future__ import annotations

from packaging.version import Version

from runner.builds.index import final, public
from runner.models import Build, Installation


def lacking(offered: list[str]) -> list[str]:
    """Releases newer than all that is known of their series, else newer than all.

    Of 2.14.0 and 2.15.0 only the second where 2.14.1 is known. Where nothing is, the
    newest. Oldest first, as `offered`, so that a verdict turns where it turned first.
    """
    known = known_versions()
    if not known:
        return offered[-1:]
    return [version for version in offered if is_new(Version(version), known)]


def is_new(version: Version, known: set[Version]) -> bool:
    series = {one for one in known if one.release[:2] == version.release[:2]}
    return version > max(series or known)


def known_versions() -> set[Version]:
    """Final releases of torch that were run here or shipped, or are installed.

    What somebody sent does not count: its sender may have made the version up.
    """
    ours = Build.objects.exclude(evidence=None).order_by()
    installed = Installation.objects.exclude(build=None).order_by()
    raws = {
        *ours.values_list("raw", flat=True),
        *installed.values_list("build__raw", flat=True),
    }
    return set(final(version for raw in raws if (version := public(raw))))
