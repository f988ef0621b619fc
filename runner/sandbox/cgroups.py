"""A cgroup per check, where this process may create some: limits memory and processes.

v2 needs a delegated ancestor with both controllers in subtree_control; v1 works for
root. Tested by creating a group, entering it and removing it again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "doesitnan-"
MIB = 1024 * 1024
REMOVAL_S = 2.0
_numbers = itertools.count()


@dataclass(frozen=True)
class Cgroups:
    """Where groups can be created: the parent folder for each controller."""

    version: str  # "v1" or "v2"
    memory: Path
    pids: Path

    def parents(self) -> list[Path]:
        return sorted({self.memory, self.pids})

    def create(self, memory_mib: int, processes: int) -> Group:
        """A new, empty group. Raises OSError."""
        name = f"{PREFIX}{owner_mark(os.getpid())}-{next(_numbers)}"
        group = Group(self.version, self.memory / name, self.pids / name)
        try:
            for path in group.paths():
                path.mkdir()
            group.limit(memory_mib, processes)
        except OSError:
            group.remove()
            raise
        return group


@dataclass(frozen=True)
class Group:
    """The group of one check."""

    version: str
    memory: Path
    pids: Path

    def paths(self) -> list[Path]:
        return sorted({self.memory, self.pids})

    def limit(self, memory_mib: int, processes: int) -> None:
        size = str(memory_mib * MIB)
        if self.version == "v2":
            (self.memory / "memory.max").write_text(size)
            with contextlib.suppress(OSError):  # No swap accounting: no swap file.
                (self.memory / "memory.swap.max").write_text("0")
        else:
            (self.memory / "memory.limit_in_bytes").write_text(size)
            with contextlib.suppress(OSError):
                (self.memory / "memory.memsw.limit_in_bytes").write_text(size)
        (self.pids / "pids.max").write_text(str(processes))

    def entry_fds(self) -> list[int]:
        """Files by which a process enters, by writing "0"; the caller closes them.

        The process must be single-threaded. In v1 `tasks` moves its one thread at once;
        `cgroup.procs` would block every fork and exit of the machine for 2 to 10 ms.
        """
        name = "cgroup.procs" if self.version == "v2" else "tasks"
        flags = os.O_WRONLY | os.O_CLOEXEC
        return [os.open(path / name, flags) for path in self.paths()]

    def limit_hit(self) -> str | None:
        """The limit that the kernel enforced: limit:memory, limit:processes or None."""
        if self.oom_kills() and self.was_full():
            return "limit:memory"
        if counters(self.pids / "pids.events").get("max"):
            return "limit:processes"
        return None

    def oom_kills(self) -> int:
        """How many of its processes the kernel killed for want of memory, anybody's."""
        name = "memory.events" if self.version == "v2" else "memory.oom_control"
        return counters(self.memory / name).get("oom_kill", 0)

    def was_full(self) -> bool:
        """Whether it ever reached its own limit; else the host had no memory left."""
        if self.version == "v2":
            return bool(counters(self.memory / "memory.events").get("oom"))
        limit = number(self.memory / "memory.limit_in_bytes")
        # The kernel charges in batches, so it may end a little below.
        return number(self.memory / "memory.max_usage_in_bytes") > limit - MIB

    def memory_mib(self) -> float:
        """Memory in MiB without page cache; tmpfs counts."""
        stat = counters(self.memory / "memory.stat")
        if self.version == "v2":
            size = stat.get("anon", 0) + stat.get("shmem", 0)
        else:
            # v1 tells of shmem since Linux 4.15; the total includes children.
            size = stat.get("total_rss", 0) + stat.get("total_shmem", 0)
        return size / MIB

    def kill(self) -> None:
        """SIGKILL for every process in the group."""
        for path in self.paths():
            for pid in members(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Kill what is left in it and delete it; `sweep` retries what fails."""
        deadline = time.monotonic() + REMOVAL_S
        for path in self.paths():
            while not removed(path) and time.monotonic() < deadline:
                self.kill()
                time.sleep(0.002)


def removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def members(path: Path) -> list[int]:
    try:
        return [int(line) for line in (path / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def counters(path: Path) -> Mapping[str, int]:
    """A file with lines of "name number"; empty where there is none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def number(path: Path) -> int:
    """A file with one number; 0 where there is none."""
    try:
        return int(path.read_text())
    except OSError:
        return 0


# --- finding a place ---------------------------------------------------------


def find(proc: Path = Path("/proc/self")) -> Cgroups:
    """Where this process can create groups. Raises OSError with the reason."""
    mounts, own = mounted(proc), own_groups(proc)
    problems = []
    for locate in (unified, split):
        try:
            cgroups = locate(mounts, own)
            verify(cgroups)
        except OSError as error:
            problems.append(str(error))
        else:
            return cgroups
    raise OSError("; ".join(dict.fromkeys(problems)))


def mounted(proc: Path) -> dict[str, tuple[str, Path]]:
    """Controller, or "" for v2 -> (root of the mount, where it is mounted)."""
    mounts = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        # What is mounted may have no name at all: "tmpfs  rw".
        kind, *_, options = after.split()
        fields = before.split()
        place = fields[3], Path(fields[4])
        if kind == "cgroup2":
            mounts[""] = place
        elif kind == "cgroup":
            mounts.update(dict.fromkeys(options.split(","), place))
    return mounts


def own_groups(proc: Path) -> dict[str, str]:
    """Controller, or "" for v2 -> the group that this process is in."""
    groups = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    return groups


def folder_of(
    controller: str, mounts: Mapping[str, tuple[str, Path]], own: Mapping[str, str]
) -> Path:
    if controller not in mounts or controller not in own:
        raise OSError(f"no cgroup {controller or 'v2'} is mounted")
    root, where = mounts[controller]
    inside = own[controller]
    if root != "/" and inside.startswith(root):
        inside = inside[len(root) :]
    return where / inside.lstrip("/")


def unified(mounts: Mapping[str, tuple[str, Path]], own: Mapping[str, str]) -> Cgroups:
    """The nearest writable ancestor in v2 that hands memory and pids down."""
    start = folder_of("", mounts, own)
    top = mounts[""][1]
    for path in (start, *start.parents):
        control = path / "cgroup.subtree_control"
        handed_down = set(control.read_text().split()) if control.exists() else set()
        if {"memory", "pids"} <= handed_down and os.access(path, os.W_OK):
            return Cgroups("v2", path, path)
        if path == top:
            break
    raise OSError("no delegated cgroup v2 with memory and pids")


def split(mounts: Mapping[str, tuple[str, Path]], own: Mapping[str, str]) -> Cgroups:
    """v1: below the groups of this process."""
    memory = folder_of("memory", mounts, own)
    pids = folder_of("pids", mounts, own)
    for path in (memory, pids):
        if not os.access(path, os.W_OK):
            raise OSError("no right to make groups in cgroup v1")
    return Cgroups("v1", memory, pids)


def verify(cgroups: Cgroups) -> None:
    """Create a group, let a process enter it, remove it. Raises OSError."""
    group = cgroups.create(64, 16)
    handles: list[int] = []
    try:
        handles += group.entry_fds()
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exec sleep 60"], {})
        try:
            for handle in handles:
                os.write(handle, str(pid).encode())
            if not all(pid in members(path) for path in group.paths()):
                raise OSError("a process does not appear in its cgroup")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    finally:
        for handle in handles:
            os.close(handle)
        group.remove()


# --- what killed workers left ------------------------------------------------


def owner_mark(pid: int) -> str:
    """pid and start time, so that a reused pid is not taken for the same process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return f"{pid}-{fields[19]}"


def is_alive(mark: str) -> bool:
    try:
        return owner_mark(int(mark.partition("-")[0])) == mark
    except (OSError, ValueError):
        return False


def abandoned(cgroups: Cgroups) -> Iterator[Path]:
    for parent in cgroups.parents():
        for path in parent.glob(PREFIX + "*"):
            if not is_alive(path.name[len(PREFIX) :].rpartition("-")[0]):
                yield path


def sweep(cgroups: Cgroups) -> int:
    """Kill and remove the groups of workers that are gone; returns how many."""
    count = 0
    for path in abandoned(cgroups):
        Group(cgroups.version, path, path).remove()
        count += not path.exists()
    return count
