"""What the package indexes offer, and which of it this site does not know.

pip is asked (`pip index versions`), so that every index, certificate and proxy that it
is configured with counts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

from django.conf import settings
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kb.choices import OUR_ORIGINS
from kb.models import Record
from runner.builds import venvs
from runner.builds.install import FAIL_FAST
from runner.builds.probe import BuildError
from runner.models import Build, Installation, WatchedRelease

TORCH = "torch"
LIMIT_S = 300
VERSIONS = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


def offered(package: str, index: str = "", *, pre: bool = False) -> list[Version]:
    """Versions with a wheel for this Python and platform, oldest first.

    `index` takes the place of the configured one. Raises BuildError with pip's reason.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    command += ["--only-binary=:all:", *FAIL_FAST, *["--pre"] * pre]
    command += ["--index-url", index] if index else []
    extra = settings.TORCH_INDEX_URL
    if package == TORCH and not index and extra and extra.lower() != "none":
        command += ["--extra-index-url", extra]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            env=venvs.clean_environ(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"pip did not answer within {LIMIT_S} s") from error
    found = VERSIONS.search(done.stdout)
    if found is None:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line]
        raise BuildError("\n".join(lines[-3:]) or f"pip ended with {done.returncode}")
    versions = map(public, found[1].split(","))
    return sorted({version for version in versions if version})


def public(text: str) -> Version | None:
    """Without its local part: 2.13.0+cpu and 2.13.0 are one release."""
    try:
        return Version(Version(text.strip()).public)
    except InvalidVersion:
        return None


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
