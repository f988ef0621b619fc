"""Which releases of torch the package indexes offer to this Python."""

from __future__ import annotations

import re
import subprocess
import sys

from packaging.version import InvalidVersion, Version

from runner.builds import install, uv, venvs
from runner.builds.probe import BuildError

LIMIT_S = 120
LISTED = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


def releases(package: str = "torch") -> list[str]:
    """Final releases with a wheel for this Python, oldest first, as pip finds them.

    One that pip would take from PyTorch's CPU index bears no mark here: 2.6.0. Raises
    BuildError where pip may ask no index, or none answers.
    """
    if not uv.may_ask_indexes(uv.pip_settings()):
        raise BuildError("pip's settings forbid every index (no-index).")
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    command += ["--only-binary", ":all:", *index_options()]
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
    listed = LISTED.search(done.stdout)
    if done.returncode or not listed:
        said = (done.stderr.strip() or "nothing").splitlines()[-1]
        raise BuildError(f"pip lists no releases of {package}: {said}")
    return final(listed[1].split(", "))


def index_options() -> list[str]:
    index = install.index_for("")
    return ["--extra-index-url", index, *install.FAIL_FAST] if index else []


def final(names: list[str]) -> list[str]:
    """The releases among versions, each once, oldest first."""
    found = set()
    for name in names:
        try:
            version = Version(name)
        except InvalidVersion:
            continue
        if not version.is_prerelease and not version.is_postrelease:
            found.add(Version(version.public))
    return [str(version) for version in sorted(found)]
