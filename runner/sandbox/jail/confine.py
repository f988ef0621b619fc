"""Irrevocable limits that a process sets itself before it runs untrusted code."""

from __future__ import annotations

import os
import resource

import kernel
import landlock
import seccomp

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Any, Mapping, Optional, Sequence

MIB = 1024 * 1024


def apply(policy: Mapping[str, Any], cgroup_fds: Sequence[int] = ()) -> None:
    """Confine this single-threaded process by the policy before untrusted code runs.

    `cgroup_fds`: open files of cgroups, which this process enters; they are closed.
    Policy keys: `uid` and `gid` (null: unchanged), `rlimits`, `landlock`, `seccomp`.
    Raises OSError where any part fails: then nothing must run.
    """
    for number in cgroup_fds:
        os.write(number, b"0\n")
        os.close(number)
    kernel.bound_capabilities()
    become(policy.get("uid"), policy.get("gid"))
    # Changing the user resets this, and makes /proc/self root's.
    kernel.die_with_parent()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    kernel.drop_capabilities()
    limit(policy["rlimits"])
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    files = policy.get("landlock")
    if files:
        landlock.restrict(
            files["read"],
            files["write"],
            tcp=files["tcp"],
            scoped=files["scoped"],
            version=files["abi"],
        )
    calls = policy.get("seccomp")
    if calls:
        seccomp.install(**calls)


def make_folders(policy: Mapping[str, Any]) -> None:
    """The folders of the check, which it owns, and its links."""
    uid = -1 if policy["uid"] is None else policy["uid"]
    gid = -1 if policy["gid"] is None else policy["gid"]
    for folder in policy["folders"]:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        os.chown(folder, uid, gid)
    for name, to in policy["links"].items():
        os.symlink(to, name)


def write_source(path: str, source: bytes) -> None:
    """The source of the check, which it can only read."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with open(number, "wb") as file:
        file.write(source)


def become(uid: Optional[int], gid: Optional[int]) -> None:
    """Change to another user for good, without supplementary groups."""
    if uid is None or gid is None:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def limit(limits: Mapping[str, Any]) -> None:
    """Limits core, fsize_mib, nofile and nproc; null leaves one unchanged."""
    lower(resource.RLIMIT_CORE, limits.get("core"))
    fsize = limits.get("fsize_mib")
    lower(resource.RLIMIT_FSIZE, None if fsize is None else fsize * MIB)
    lower(resource.RLIMIT_NOFILE, limits.get("nofile"))
    lower(resource.RLIMIT_NPROC, limits.get("nproc"))


def lower(which: int, value: Optional[int]) -> None:
    """Lower soft and hard limit; a lower one is kept."""
    if value is None:
        return
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))
