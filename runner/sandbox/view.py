"""What a run may see: the files of its build and of the system, all read-only.

A view is a list of entries as `jail/namespaces.py` documents them; what is not on it
does not exist inside. Sources are resolved, targets keep the names under which the
build knows its files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from runner import harness
from runner.sandbox.layout import Layout, chain, too_wide

Entry = dict[str, Any]

HARNESS = Path(harness.__file__).resolve()
JAIL = Path(__file__).resolve().parent / "jail"
# Fixed places inside, so that no path of this machine shows.
INSIDE_HARNESS = "/run/doesitnan/harness.py"
INSIDE_JAIL = "/run/doesitnan/jail"
INSIDE_CACHE = "/cache"
SCRATCH = "/tmp/run"  # noqa: S108  # the run's own tmpfs

DEVICES, GPUS = Path("/dev"), Path("/proc/driver/nvidia/gpus")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Stores of libraries; files of loaders, compilers and Debian's name for its torch; the
# processors.
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


class Seen:
    """A view in the making: what something seen contains is not named again."""

    def __init__(self, hidden: Sequence[str]) -> None:
        self.hidden = hidden
        self.sources: dict[str, str] = {}  # target -> source

    def add(self, path: str) -> None:
        """Show `path` under its own name and under the one it resolves to."""
        path = os.path.abspath(path)  # noqa: PTH100  # keeps symbolic links
        real = os.path.realpath(path)
        if not Path(real).exists():
            return
        for target in (real, path):
            if not self.shows(target, real):
                self.sources[target] = real

    def shows(self, target: str, real: str) -> bool:
        """Whether it is there already, by itself or in a folder above it."""
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
        """Wide ones, then covers over what they must not show, then what lies below."""
        shown = [
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
            for entry in shown
            if any(below(entry["target"], cover["target"]) for cover in covers)
        ]
        return [*(entry for entry in shown if entry not in late), *covers, *late]


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

    `hidden`: folders that stay unseen even where something shown contains them. `gpus`:
    UUIDs of those whose devices are there; "" for none, None for all. `compile_cache`:
    a folder that may be written, at INSIDE_CACHE. `users`: user ids that have a name
    inside.
    """
    seen = Seen([os.path.realpath(path) for path in hidden])
    links = []
    for path in SYSTEM:
        if Path(path).is_symlink():  # /bin -> usr/bin
            links.append({"kind": "symlink", "to": os.readlink(path), "target": path})  # noqa: PTH115
        else:
            seen.add(path)
    for path in (*SHARED, *map(str, Path("/etc").glob("python3*"))):
        seen.add(path)
    for path in needs(layout):
        seen.add(path)
    names = {**NAMES, "/etc/passwd": passwd(users)}
    own = {str(HARNESS): INSIDE_HARNESS, str(JAIL): INSIDE_JAIL}
    entries: list[Entry] = [*links, *seen.entries()]
    entries += [{"kind": "file", "target": t, "text": x} for t, x in names.items()]
    entries += [{"kind": "bind", "source": s, "target": t} for s, t in own.items()]
    if compile_cache:
        entries += cache_entries(compile_cache)
    return [*entries, *(gpu_entries(gpus or "") if gpus != "" else ())]


def cache_entries(path: str) -> list[Entry]:
    """The compile cache: the one folder of this machine's disk that can be written."""
    bound = {"kind": "bind", "source": os.path.realpath(path)}
    return [{**bound, "target": INSIDE_CACHE, "write": True}]


def needs(layout: Layout) -> list[str]:
    """What the build, its launcher and its libraries need beside the system."""
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


def gpu_devices(visible: str = "") -> list[str]:
    """The device files; of the GPUs only the `visible` ones (UUIDs), if they are known.

    The driver names UUID and number of each in /proc/driver/nvidia/gpus.
    """
    found = sorted(str(path) for path in DEVICES.glob("nvidia*"))
    numbers = gpu_numbers()
    wanted = {numbers.get(uuid) for uuid in visible.split(",")}
    if not visible or None in wanted:
        return found
    others = {f"{DEVICES}/nvidia{n}" for n in set(numbers.values()) - wanted}
    return [path for path in found if path not in others]


def gpu_numbers() -> dict[str, str]:
    """UUID -> number of its device file, for the GPUs the driver tells of."""
    numbers = {}
    for path in GPUS.glob("*/information"):
        lines = (line.partition(":") for line in path.read_text().splitlines())
        told = {name.strip(): value.strip() for name, _, value in lines}
        if "GPU UUID" in told and "Device Minor" in told:
            numbers[told["GPU UUID"]] = told["Device Minor"]
    return numbers


def gpu_entries(visible: str) -> list[Entry]:
    """The devices, and what the driver's library reads before it takes them."""
    devices = gpu_devices(visible)
    if not devices:
        return []
    nodes = [{"kind": "bind", "source": p, "target": p} for p in devices]
    system: Entry = {"kind": "bind", "source": "/sys", "target": "/sys"}
    return [system, *({**node, "device": True} for node in nodes)]


def own_python() -> str:
    """The interpreter of this site without its packages: it runs the launcher."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
