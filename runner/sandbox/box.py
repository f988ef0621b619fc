"""Starting the jail: descriptors, launcher and outer box for one command."""

from __future__ import annotations

import compileall
import contextlib
import functools
import json
import marshal
import os
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.sandbox import bubblewrap, view
from runner.sandbox.jail import kernel
from runner.sandbox.policy import Policy

LAUNCHER = "launch.py"


class NotStarted(Exception):
    """The outer box could not be started; the text says why."""


@dataclass
class Box:
    """A started jail. Our ends of its descriptors are the holder's to close."""

    process: subprocess.Popen[bytes]
    control: socket.socket


@dataclass
class Descriptors:
    """What a jail inherits; closed here once it has been started."""

    inherited: list[int] = field(default_factory=list)
    ours: list[int] = field(default_factory=list)

    def text(self, data: bytes) -> int:
        """A file in memory with this content, to be read from its beginning."""
        handle = os.memfd_create("doesitnan", os.MFD_CLOEXEC)
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(handle, 0, os.SEEK_SET)
        self.ours.append(handle)
        self.inherited.append(handle)
        return handle

    def close(self) -> None:
        while self.ours:
            os.close(self.ours.pop())


def start(
    policy: Policy,
    command: Sequence[str],
    entries: Iterable[view.Entry],
    *,
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    stdin: int = subprocess.DEVNULL,
    passed: Sequence[int] = (),
    held: Sequence[int] = (),
    cgroup: Sequence[int] = (),
    source: bytes | None = None,
    cwd: str = "/",
) -> Box:
    """Start `command` in the jail of `policy`, inside the outer box of `entries`.

    `passed`: descriptors for the command. `held`: for its init only (locks). `cgroup`:
    open files of cgroups that the command enters. `source`: content of the file
    `policy["source"]`. Raises NotStarted.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fds = Descriptors([theirs.fileno(), *passed, *held, *cgroup])
    try:
        numbers: dict[str, Any] = {
            "report": theirs.fileno(),
            "source": None if source is None else fds.text(source),
            "pass": list(passed),
            "keep": list(held),
            "cgroup": list(cgroup),
        }
        told = fds.text(marshal.dumps({**policy, "fds": numbers}))
        outer = outer_box(policy, entries, fds)
        process = subprocess.Popen(
            [*outer, *launcher(policy), str(told), *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            pass_fds=fds.inherited,
            start_new_session=True,
        )
    except (OSError, NotStarted) as error:
        ours.close()
        raise NotStarted(str(error)) from error
    finally:
        fds.close()
        theirs.close()
    return Box(process, ours)


def outer_box(
    policy: Policy, entries: Iterable[view.Entry], fds: Descriptors
) -> list[str]:
    """bubblewrap's command, where the policy wants it. Raises NotStarted, OSError."""
    if policy["namespaces"] != "bubblewrap":
        return []
    program = bubblewrap.program()
    if program is None:
        raise NotStarted("bubblewrap is gone")
    texts = {
        entry["target"]: fds.text(entry["text"].encode())
        for entry in entries
        if entry["kind"] == "file"
    }
    root = kernel.may_administer()
    return bubblewrap.arguments(program, entries, texts, root=root)


def launcher(policy: Policy) -> list[str]:
    """Runs under this site's own interpreter: the build's is not to be relied on."""
    compile_jail()
    inside = policy["namespaces"] == "bubblewrap"
    folder = view.INSIDE_JAIL if inside else str(view.JAIL)
    return [view.own_python(), "-I", "-S", f"{folder}/{LAUNCHER}"]


@functools.cache
def compile_jail() -> None:
    """Keep the bytecode of the jail, which no launcher could write from inside.

    Each start would compile 1,400 lines again, a third of what the layers cost. Where
    this code may not be written to, that is how it stays.
    """
    compileall.compile_dir(view.JAIL, maxlevels=0, quiet=2)


def first_words(control: socket.socket, timeout_s: float) -> dict[str, Any]:
    """The first packet of an init; {} where it ended or kept silent."""
    control.settimeout(timeout_s)
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(control.recv(65536))
        return found if isinstance(found, dict) else {}
    return {}
