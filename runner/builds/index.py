"""Which releases the package indexes offer to this Python, and which the site lacks.

pip is asked (`pip index versions`), so that every index, certificate and proxy that it
is configured with counts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from runner.builds import install, venvs
from runner.builds.probe import BuildError
from runner.models import Build, Installation

LIMIT_S = 300
LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


def releases() -> list[str]:
    """Final releases of torch with a wheel for this Python and platform, oldest first.

    Raises BuildError where pip may ask no index, with pip's reason where none answers.
    """
    if not venvs.may_ask_indexes():
        raise BuildError("pip's settings forbid every index (no-index).")
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    command += ["--only-binary=:all:", *install.FAIL_FAST]
    if index := install.index_for(""):
        command += ["--extra-index-url", index]
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
        raise BuildError(f"pip did not answer within {LIMIT_S} s.") from error
    found = LISTED.search(done.stdout)
    if done.returncode or found is None:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line]
        raise BuildError("\n".join(lines[-3:]) or f"pip ended with {done.returncode}")
    offered = final(each_once(found[1].split(",")))
    return [str(version) for version in offered]


def each_once(texts: Iterable[str]) -> list[Version]:
    return sorted({version for text in texts if (version := public(text))})


def public(text: str) -> Version | None:
    """Without its local part: 2.13.0+cpu and 2.13.0 are one release."""
    try:
        return Version(Version(text.strip()).public)
    except InvalidVersion:
        return None


def final(versions: Iterable[Version]) -> list[Version]:
    return [row for row in versions if not (row.is_prerelease or row.is_postrelease)]


# --- what the site lacks ----------------------------------------
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
