"""What a new site installs and where from: fixtures/builds.toml, TORCH_INDEX_URL."""

from __future__ import annotations

import platform
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

# Such as linux-x86_64.
HOST = f"{sys.platform}-{platform.machine()}"


@dataclass(frozen=True)
class BuildPin:
    """One table of fixtures/builds.toml; sizes in MiB, 0 where nobody measured."""

    slug: str
    torch: str
    packages: list[str]
    download_mib: int
    disk_mib: int


def tables() -> dict[str, Any]:
    return tomllib.loads(settings.BUILDS_FILE.read_text())


def default_build(table: str = "default", host: str = HOST) -> BuildPin:
    """The build a new site installs, or with "cuda" what a GPU host may take.

    Where another wheel is published for a platform it has a table of its own.
    """
    found = tables()
    return BuildPin(**found.get(f"{table}-{host}", found[table]))


def torch_index() -> str:
    """The index that is asked after the configured ones; "" where it is forbidden."""
    named: str = settings.TORCH_INDEX_URL
    if named:
        return "" if named.lower() == "none" else named
    return str(tables()["index"]["cpu"])


def has_nvidia_gpu() -> bool:
    """Whether the kernel driver lists a GPU, without initialising it."""
    return any(Path("/proc/driver/nvidia/gpus").glob("*"))
