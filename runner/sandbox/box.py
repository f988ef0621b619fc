"""Starts one command in its sandbox: descriptors, launcher and outer box."""

from __future__ import annotations

import compileall
import contextlib
import functools
import json
import marshal
import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from runner.sandbox import bubblewrap, view
from runner.sandbox.jail import kernel
from runner.sandbox.policy import Policy

LAUNCHER = "launch.py"
KILL_GRACE_S = 2.0  # for an init to end all by itself


class NotStarted(Exception):
    """The outer box could not be started; the text says why."""


@dataclass
class Box:
    """A started sandbox; the caller closes `control`."""

    process: subprocess.Popen[bytes]
    control: socket.socket


@dataclass
class Descriptors:
    """Descriptors for a sandbox, closed here once it has inherited them."""

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


@dataclass(frozen=True)
class Given:
    """What a jail inherits beside the standard streams.

    `passed`: descriptors for the command. `held`: for its init only (locks). `cgroup`:
    open files of cgroups that the command enters. `source`: content of the file
    `policy["source"]`.
    """

    passed: Sequence[int] = ()
    held: Sequence[int] = ()
    cgroup: Sequence[int] = ()
    source: bytes | None = None


def start(
    policy: Policy,
    command: Sequence[str],
    entries: Iterable[view.Entry],
    *,
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    given: Given,
    stdin: int = subprocess.DEVNULL,
) -> Box:
    """Start `command` in the jail of `policy`, inside the outer box of `entries`.

    Raises NotStarted.
    """
    our_end, their_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    report = their_end.fileno()
    fds = Descriptors([report, *given.passed, *given.held, *given.cgroup])
    try:
        source = None if given.source is None else fds.text(given.source)
        numbers = {**asdict(given), "report": report, "source": source}
        policy_fd = fds.text(marshal.dumps({**policy, "fds": numbers}))
        outer = outer_box(policy, entries, fds)
        process = subprocess.Popen(
            [*outer, *launcher(policy), str(policy_fd), *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd="/",
            pass_fds=fds.inherited,
            start_new_session=True,
        )
    except (OSError, NotStarted) as error:
        our_end.close()
        raise NotStarted(str(error)) from error
    finally:
        fds.close()
        their_end.close()
    return Box(process, our_end)


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
    """The launcher's command, under this site's interpreter, not the build's."""
    compile_jail()
    inside = policy["namespaces"] == "bubblewrap"
    folder = view.INSIDE_JAIL if inside else str(view.JAIL)
    return [view.own_python(), "-I", "-S", f"{folder}/{LAUNCHER}"]


@functools.cache
def compile_jail() -> None:
    """Write the bytecode of the jail, which the launcher cannot write from inside.

    Without it each start compiles 1,400 lines again, a third of the cost of the layers.
    """
    compileall.compile_dir(view.JAIL, maxlevels=0, quiet=2)


def last_packet(control: socket.socket, timeout_s: float) -> dict[str, Any]:
    """With which an init ends; {} where it ended without, or sent nothing so long."""
    control.settimeout(timeout_s)
    with contextlib.suppress(OSError, ValueError):
        packet: Any = {}
        while "status" not in packet:
            packet = json.loads(control.recv(65536))
        return dict(packet)
    return {}


def reap(outer: subprocess.Popen[bytes]) -> None:
    """Wait for a box whose init was told to end it; kill one that is late."""
    try:
        outer.wait(KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        kill_tree(outer)
        outer.wait()


def kill_tree(outer: subprocess.Popen[bytes]) -> None:
    """Kill a box and all that is in it."""
    if outer.returncode is None:
        for pid in kernel.descendants(outer.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        outer.kill()
