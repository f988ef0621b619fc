"""Which of what the package indexes offer this site does not know."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.utils import canonicalize_name
from packaging.version import Version

from kb.choices import OUR_ORIGINS
from kb.models import Record
from runner.builds.index import TORCH, public
from runner.models import Build, Installation, WatchedRelease


def new_among(versions: Iterable[Version], known: set[Version]) -> list[Version]:
    """Releases newer than all that is known of their series, else newer than all.

    Of 2.14.0 and 2.15.0 only the second where 2.14.1 is known. Where nothing is, the
    newest; of pre-releases at most the newest. Oldest first, so that a verdict turns
    where it turned first.
    """
    finals = [version for version in versions if not version.is_prerelease]
    known_finals = {version for version in known if not version.is_prerelease}
    new = [version for version in finals if is_new(version, known_finals)]
    if not known_finals:
        new = finals[-1:]
    early = [version for version in versions if version.is_prerelease][-1:]
    latest = max([*known, *finals], default=Version("0"))
    return [*new, *(version for version in early if version > latest)]


def is_new(version: Version, known: set[Version]) -> bool:
    series = {one for one in known if one.release[:2] == version.release[:2]}
    return version > max(series or known, default=version)


def known_versions() -> set[Version]:
    """Of torch: what was run here or shipped, is installed, or was found before.

    What somebody sent does not count: its sender may have made the version up.
    """
    ours = Build.objects.filter(evidence__origin__in=OUR_ORIGINS)
    installed = Installation.objects.exclude(build=None).order_by()
    raws = {
        *ours.order_by().values_list("raw", flat=True).distinct(),
        *installed.values_list("build__raw", flat=True).distinct(),
        *seen_of(TORCH),
    }
    return {version for raw in raws if (version := public(raw))}


def seen_of(package: str) -> set[str]:
    rows = WatchedRelease.objects.filter(package=package).order_by()
    return set(rows.values_list("version", flat=True))


def named_packages() -> dict[str, set[Version]]:
    """Packages beside torch that a repro's stack and a record's ranges both name.

    With the versions that are known of each. A stack names modules, which only for
    those are names on an index, too.
    """
    known: dict[str, set[Version]] = {}
    for record in Record.objects.visible().prefetch_related("repros"):
        facts = [*record.affected, *record.fixes]
        packages = {canonicalize_name(fact["package"]) for fact in facts} - {TORCH}
        for repro in record.repros.all():
            for module, text in repro.header.get("stack", {}).items():
                name = canonicalize_name(module)
                if name in packages and (version := public(text)):
                    known.setdefault(name, set()).add(version)
    for package, versions in known.items():
        versions |= {version for text in seen_of(package) if (version := public(text))}
    return known
