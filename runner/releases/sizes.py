"""How much a release is to download and on disk, before anything is fetched."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from django.conf import settings

from runner.builds import install, pins, uv
from runner.builds.install import Attempt


@dataclass(frozen=True)
class Priced:
    """An attempt with its sizes, and what they rest on in words for a terminal."""

    attempt: Attempt
    said: str


def priced(version: str, index: str = "") -> Priced:
    """The attempt to install a release of torch. Raises InstallError, BuildError.

    uv says which wheels there would be. Without it the sizes are those of the pinned
    wheel with CUDA, the largest that is likely.
    """
    attempt = install.attempt_for_version(version, [])
    if index:
        attempt = replace(attempt, extra_index=index)
    if command := uv.find():
        settings.BUILDS_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        variables = uv.variables(uv.pip_settings(), os.environ, attempt.extra_index)
        tool = uv.Uv(command, variables, settings.BUILDS_DIR)
        plan = tool.plan(Path(sys.prefix), attempt.requirements)
        if plan and plan.wheels:
            return of_plan(attempt, plan)
    pin = pins.default_build("cuda")
    attempt = replace(attempt, download_mib=pin.download_mib, disk_mib=pin.disk_mib)
    said = (
        f"about {pin.download_mib} MiB to download and {pin.disk_mib} MiB on disk, as "
        f"torch {pin.torch} took: without uv nobody tells before"
    )
    return Priced(attempt, said)


def of_plan(attempt: Attempt, plan: uv.Plan) -> Priced:
    disk = round(plan.mib * install.UNPACKED)
    said = f"{plan.describe()}; about {disk} MiB on disk"
    download = 0 if plan.to_download == 0 else plan.mib
    return Priced(replace(attempt, download_mib=download, disk_mib=disk), said)
