"""The view of a run: the files of its build and of the system, all read-only.

A view is a list of entries as `jail/namespaces.py` documents them; anything else does
not exist inside. Sources are resolved; targets keep the paths by which the build knows
its files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from portable import harness
from runner.gpus import nvml
from runner.sandbox.layout import Layout, chain, too_wide

Entry = dict[str, Any]

HARNESS = Path(harness.__file__).resolve().parent
JAIL = Path(__file__).resolve().parent / "jail"
# Fixed paths inside, so that no path of this machine is visible.
INSIDE_HARNESS = "/run/doesitnan/portable/harness"
INSIDE_JAIL = "/run/doesitnan/jail"
INSIDE_CACHE = "/cache"
INSIDE_SEED = "/seed"
INSIDE_CACHES = "/caches"
SCRATCH = "/tmp/run"  # noqa: S108  # the run's own tmpfs

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Library stores; files of loaders and compilers; dpkg, for Debian's torch; processors.
SHARED = (
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/var/lib/dpkg",
    "/sys/devices/system",
)
LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
NAMES = {
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/group": "root:x:0:\nrun:x:62000:\n",
}


class ViewBuilder:
    """Collects the paths of a view; what another path contains is not added again."""

    def __init__(self, hidden: Sequence[str]) -> None:
        self.hidden = hidden
        self.sources: dict[str, str] = {}  # target -> source

    def add(self, path: str) -> None:
        """Add `path` under its own name and its resolved one."""
        path = os.path.abspath(path)  # noqa: PTH100  # keeps symbolic links
        real = os.path.realpath(path)
        if not Path(real).exists():
            return
        for target in (real, path):
            if not self.shows(target, real):
                self.sources[target] = real

    def shows(self, target: str, real: str) -> bool:
        """Whether it is shown already, by itself or by a folder above it."""
        for folder in (target, *map(str, Path(target).parents)):
            if folder in self.sources and not self.cover_between(folder, target):
                inside = Path(self.sources[folder], os.path.relpath(target, folder))
                return os.path.realpath(inside) == real
        return False

    def cover_between(self, folder: str, target: str) -> bool:
        return any(
            below(hidden, folder) and below(target, hidden) for hidden in self.hidden
        )

    def entries(self) -> list[Entry]:
        """Binds, then covers over hidden folders, then binds below those."""
        binds = [
            {"kind": "bind", "source": source, "target": target}
            for target, source in self.sources.items()
        ]
        covers = [
            {"kind": "empty", "target": path}
            for path in self.hidden
            if any(below(path, target) for target in self.sources)
        ]
        late = [
            entry
            for entry in binds
            if any(below(entry["target"], cover["target"]) for cover in covers)
        ]
        return [*(entry for entry in binds if entry not in late), *covers, *late]


def below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def build_view(
    layout: Layout,
    *,
    hidden: Iterable[str] = (),
    gpus: str | None = "",
    compile_cache: str = "",
    users: Iterable[int] = (),
) -> list[Entry]:
    """The view for one build.

    `hidden`: folders to hide where another path contains them. `gpus`: UUIDs of visible
    GPUs; "" for none, None for all. `compile_cache`: a writable folder, at
    INSIDE_CACHE. `users`: user ids that have a name inside.
    """
    builder = ViewBuilder([os.path.realpath(path) for path in hidden])
    links = []
    for path in SYSTEM:
        if Path(path).is_symlink():  # /bin -> usr/bin
            links.append({"kind": "symlink", "to": os.readlink(path), "target": path})  # noqa: PTH115
        else:
            builder.add(path)
    for path in (*SHARED, *map(str, Path("/etc").glob("python3*"))):
        builder.add(path)
    for path in needs(layout):
        builder.add(path)
    names = {**NAMES, "/etc/passwd": passwd(users)}
    own = {str(HARNESS): INSIDE_HARNESS, str(JAIL): INSIDE_JAIL}
    entries: list[Entry] = [*links, *builder.entries()]
    entries += [{"kind": "file", "target": t, "text": x} for t, x in names.items()]
    entries += [{"kind": "bind", "source": s, "target": t} for s, t in own.items()]
    if compile_cache:
        entries += cache_entries(compile_cache)
    return [*entries, *(gpu_entries(gpus or "") if gpus != "" else ())]


def cache_entries(path: str) -> list[Entry]:
    """The compile cache: the only writable folder of this machine's disk."""
    bound = {"kind": "bind", "source": os.path.realpath(path)}
    return [{**bound, "target": INSIDE_CACHE, "write": True}]


def caches_entries(root: str) -> list[Entry]:
    """The compile caches of a build, for its parent: a check gets one at INSIDE_CACHE.

    `jail/namespaces.py` shows it that one and covers the others.
    """
    bound = {"kind": "bind", "source": os.path.realpath(root)}
    return [
        {**bound, "target": INSIDE_CACHES, "write": True},
        {"kind": "empty", "target": INSIDE_CACHE},
    ]


def seed_entries(path: str) -> list[Entry]:
    """What every program of a build compiles first, to be read by its parent."""
    return [{"kind": "bind", "source": os.path.realpath(path), "target": INSIDE_SEED}]


def needs(layout: Layout) -> list[str]:
    """Paths that the build, its launcher and its libraries need beside the system."""
    texts = (os.environ.get(name, "") for name in LIBRARY_VARIABLES)
    libraries = [path for text in texts for path in text.split(":") if path]
    return [
        sys.base_prefix,
        *layout.folders,
        *(path for path in libraries if not too_wide(path)),
        *chain(layout.interpreter),
        *layout.files,
    ]


def passwd(users: Iterable[int]) -> str:
    lines = ["root:x:0:0:root:/:/bin/sh"]
    lines += [f"run{uid}:x:{uid}:62000:run:{SCRATCH}:/bin/sh" for uid in users if uid]
    return "\n".join(lines) + "\n"


def gpu_entries(visible: str) -> list[Entry]:
    """The devices, and /sys, which the driver's library reads before it opens them."""
    devices = nvml.device_nodes(visible)
    if not devices:
        return []
    nodes = [{"kind": "bind", "source": p, "target": p} for p in devices]
    system: Entry = {"kind": "bind", "source": "/sys", "target": "/sys"}
    return [system, *({**node, "device": True} for node in nodes)]


def own_python() -> str:
    """The base interpreter of this site, without packages, for the launcher."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
