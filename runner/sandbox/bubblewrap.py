"""The outer box as arguments of bubblewrap."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from runner.sandbox.view import Entry

PLAIN_UID = 62000  # who container root is inside, where it may not be a real root
# Without --die-with-parent: a bubblewrap that is killed while it starts leaves a child
# that waits for it for ever. The jail's init ends all once nobody holds its `control`.
FIXED = (
    "--new-session",
    "--as-pid-1",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--hostname",
    "localhost",
)
# Mounted over in each check's own namespaces, with a size.
EMPTY = ("/tmp", "/dev/shm")  # noqa: S108  # inside


def program() -> str | None:
    return shutil.which("bwrap")


def arguments(
    bwrap: str, view: Iterable[Entry], texts: dict[str, int], *, root: bool
) -> list[str]:
    """The command line up to the command. `texts`: file -> descriptor of its content.

    `root`: whether this process may administer namespaces, so that no user namespace is
    needed and real user ids exist inside.
    """
    users: Sequence[str] = ()
    if not root:
        uid, gid = os.geteuid() or PLAIN_UID, os.getegid() or PLAIN_UID
        users = ("--unshare-user", "--uid", str(uid), "--gid", str(gid))
    command = [bwrap, *FIXED, *users, "--proc", "/proc", "--dev", "/dev"]
    for path in EMPTY:
        command += ["--size", str(16 * 2**20), "--tmpfs", path]
    covered: list[str] = []
    created = {"/", "/dev", "/proc", *EMPTY}
    for entry in view:
        target = entry["target"]
        command += folders_above(target, created)
        created.add(target)
        if entry["kind"] == "symlink":
            command += ["--symlink", entry["to"], target]
        elif entry["kind"] == "file":
            content = str(texts[target])
            command += ["--perms", "0444", "--ro-bind-data", content, target]
        elif entry["kind"] == "empty":
            command += ["--size", str(2**20), "--tmpfs", target]
            covered.append(target)
        else:
            how = "--ro-bind"
            if entry.get("device"):
                how = "--dev-bind"
            elif entry.get("write"):
                how = "--bind"
            command += [how, entry["source"], target]
    for path in (*covered, "/"):
        command += ["--remount-ro", path]
    return [*command, "--"]


def folders_above(target: str, created: set[str]) -> list[str]:
    """--dir arguments for the folders above a mount; else only root can read them."""
    missing = []
    for folder in map(str, PurePath(target).parents):
        if folder in created:
            break
        missing.append(folder)
    created.update(missing)
    return [word for folder in reversed(missing) for word in ("--dir", folder)]
