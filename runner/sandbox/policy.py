"""The policy for the jail: of one check, or of a build's warm parent."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from typing import Any

from portable import harness
from runner.gpus import nvml
from runner.sandbox import layout, uids, view
from runner.sandbox.tiers import SHARED_ROOT, Layers
from runner.sandbox.view import Entry

FILE_MIB = 512  # torch.compile writes one of 156 MB
OPEN_FILES = 4096
PROCESSES = 96
TMP_MIB, SHM_MIB, INODES = 768, 256, 16384
GID = 62000
USER = "run"  # a name only; there is no such account
TRUNCATION_SINCE = 3  # the ABI of Landlock that governs it
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty")
# Names of users, for programs that ask who they are.
NAMES = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts")

Policy = dict[str, Any]


def layers_for(layers: Layers, interpreter: str) -> Layers:
    """The layers for this build: a user of its own must be able to read it."""
    if layers.uid != "own":
        return layers
    return layers_with(layers, layout.layout_of(interpreter))


def layers_with(layers: Layers, build: layout.Layout) -> Layers:
    if layers.uid == "own" and not closed_part(layers, build):
        return layers
    root = layers.namespaces is None and os.geteuid() == 0
    return layers._replace(uid=SHARED_ROOT if root else "shared")


def closed_part(layers: Layers, build: layout.Layout) -> str:
    """What of this build, or of what starts it, other users cannot read; else ""."""
    outside = layers.namespaces is None
    ours = layout.Layout(
        str(view.HARNESS), (str(view.JAIL), sys.base_prefix), (os.__file__,)
    )
    parts = (layout.closed_part(each, with_parents=outside) for each in (build, ours))
    return next(filter(None, parts), "")


def check_policy(
    layers: Layers,
    *,
    scratch: str,
    entries: Iterable[Entry] = (),
    uid: int | None = None,
    compile_cache: str = "",
    gpus: str | None = "",
) -> Policy:
    """The policy of one check in these layers; `fds` and `source` are the starter's.

    `scratch`: where it is the check's own folder, on its side. `compile_cache`: the
    folder it may write besides, on its side. `gpus`: as in `view.build_view`.
    """
    return {
        "role": "check",
        "namespaces": layers.namespaces,
        "view": list(entries) if layers.namespaces == "unshare" else [],
        "fresh": {"tmp_mib": TMP_MIB, "shm_mib": SHM_MIB, "inodes": INODES},
        "uid": uid,
        "gid": None if uid is None else GID,
        "rlimits": {
            # 1, not 0: for a core_pattern that begins with "|" only that means none.
            "core": 1,
            "fsize_mib": FILE_MIB,
            "nofile": OPEN_FILES,
            "nproc": process_limit(layers),
        },
        "landlock": files(layers, entries, scratch, compile_cache, gpus),
        "seccomp": calls(layers),
        "scratch": scratch,
        "folders": folders(scratch),
        "links": links(scratch, compile_cache),
    }


def parent_policy(layers: Layers, entries: Iterable[Entry]) -> Policy:
    """The policy of a warm parent: the outer box, without limits for its forks."""
    base = check_policy(layers, scratch="/")
    return {**base, "role": "parent", "view": list(entries), "uid": None}


def process_limit(layers: Layers) -> int | None:
    """RLIMIT_NPROC, which counts per user: only where the user is the run's own.

    In a namespace of users it counts by itself from Linux 5.14 on.
    """
    kernel = harness.release(platform.release())
    alone = layers.uid == "own" or (
        layers.namespaces is not None and os.geteuid() and kernel >= (5, 14)
    )
    return PROCESSES if alone else None


def calls(layers: Layers) -> Policy | None:
    if not layers.seccomp:
        return None
    if layers.namespaces:
        return {"level": "jail"}
    level = "confined" if layers.uid == "own" else "shared"
    governed = (layers.landlock or 0) >= TRUNCATION_SINCE
    return {"level": level, "truncation": governed}


def seals(layers: Layers) -> bool:
    """Whether a check in these layers can kill neither itself nor what watches it."""
    return bool(layers.seccomp and layers.namespaces)


def files(
    layers: Layers,
    entries: Iterable[Entry],
    scratch: str,
    compile_cache: str,
    gpus: str | None,
) -> Policy | None:
    """The rules of Landlock: a second barrier inside a view, the only one without."""
    if not layers.landlock:
        return None
    nodes = [] if gpus == "" else nvml.device_nodes(gpus or "")
    write = [*DEVICES, *nodes, *filter(None, [compile_cache])]
    if layers.namespaces:
        # /proc: torch names its threads there. The network is the run's own.
        write += ["/tmp", "/dev/shm", "/proc"]  # noqa: S108
        read, tcp = ["/"], True
    else:
        write.append(scratch)
        read = [e["source"] for e in entries if e["kind"] == "bind"]
        read += [*NAMES, "/proc", "/dev/full", *([] if gpus == "" else ["/sys"])]
        tcp = False
    return {
        "abi": layers.landlock,
        "read": read,
        "write": write,
        "tcp": tcp,
        "scoped": True,
    }


def links(scratch: str, compile_cache: str) -> dict[str, str]:
    """Symbolic links to make: where Inductor keeps precompiled headers is no setting.

    It is `default_cache_dir()` of torch/_inductor/runtime/cache_dir_utils.py.
    """
    if not compile_cache:
        return {}
    return {f"{scratch}/tmp/torchinductor_{USER}": compile_cache}  # noqa: S108


def folders(scratch: str) -> list[str]:
    return [scratch, *(f"{scratch}/{name}" for name in ("tmp", "cache", "inductor"))]


def environment(
    scratch: str, extra: dict[str, str], *, compile_cache: str = "", gpus: str | None
) -> dict[str, str]:
    """The environment of a check: an allow-list, and folders of its own.

    `gpus`: CUDA_VISIBLE_DEVICES; None leaves it unchanged. A record can only set it to
    none.
    """
    env = harness.child_environment(scratch, compile_cache)
    env["LOGNAME"] = USER
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = gpus
    if extra.get("CUDA_VISIBLE_DEVICES"):
        extra = {k: v for k, v in extra.items() if k != "CUDA_VISIBLE_DEVICES"}
    return {**env, **extra}


def users() -> list[int]:
    """The user ids that a run can have inside, for its /etc/passwd."""
    return [os.geteuid(), *range(uids.FIRST, uids.FIRST + uids.COUNT)]
