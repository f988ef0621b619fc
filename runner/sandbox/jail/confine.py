"""Limits that a process sets itself, for good, before it runs what is not trusted."""

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
    """Confine this process as the policy says: single-threaded, before foreign code.

    `cgroup_fds`: open files of cgroups that take "0" for this process; they are closed.
    Keys of the policy: `uid` and `gid` (null: stay), `rlimits`, `landlock`, `seccomp`.
    Raises OSError when any part cannot be had: then nothing must run.
    """
    for number in cgroup_fds:
        os.write(number, b"0\n")
        os.close(number)
    kernel.bound_capabilities()
    become(policy.get("uid"), policy.get("gid"))
    # A process that changed its user loses this, and its /proc/self is root's.
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
        seccomp.install(calls["level"])


def become(uid: Optional[int], gid: Optional[int]) -> None:
    """Another user for good, without groups."""
    if uid is None or gid is None:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def limit(limits: Mapping[str, Any]) -> None:
    """Limits core, fsize_mib, nofile, nproc and cpu_s; null leaves one as it is."""
    lower(resource.RLIMIT_CORE, limits.get("core"))
    fsize = limits.get("fsize_mib")
    lower(resource.RLIMIT_FSIZE, None if fsize is None else fsize * MIB)
    lower(resource.RLIMIT_NOFILE, limits.get("nofile"))
    lower(resource.RLIMIT_NPROC, limits.get("nproc"))
    lower(resource.RLIMIT_CPU, limits.get("cpu_s"))


def lower(which: int, value: Optional[int]) -> None:
    """Lower a limit for good; one that is lower already stays."""
    if value is None:
        return
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))
