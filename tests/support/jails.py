"""Runs a few lines of Python in the jail, in any combination of its layers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import TestCase

from runner import sandbox
from runner.sandbox import box, policy, uids, view
from runner.sandbox.layout import Layout
from runner.sandbox.probes import capabilities, final_packet
from runner.sandbox.tiers import Layers
from tests import ROOT

# What the snippets below may use without saying so.
PREAMBLE = """\
import ctypes, errno, json, os, resource, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(action, *arguments):
    "The name of the error it ends with, or 'done'."
    try:
        result = action(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    if result == -1:
        return errno.errorcode[ctypes.get_errno()]
    return "done"
def say(**found):
    print(json.dumps(found), flush=True)
"""
NAMESPACES = ("bubblewrap", "unshare")


def leave_limits_only(case: TestCase) -> None:
    """A machine whose sandbox is of tier D, for one test."""
    before = sandbox._Settings
    restore = partial(sandbox.configure, allow_shared_root=before.allow_shared_root)
    case.addCleanup(restore, before.without, before.hidden)
    layers = ("namespaces", "landlock", "seccomp", "cgroup")
    sandbox.configure(layers, allow_shared_root=True)


@dataclass
class Ended:
    """What a snippet said, and how its process ended."""

    said: dict[str, Any]
    errors: str
    report: dict[str, Any]


@cache
def here() -> Layers:
    """Every layer of this machine at once."""
    return capabilities().layers


def has(kind: str) -> bool:
    """Whether this machine makes namespaces in this way."""
    without = {"unshare": ["bubblewrap"], "bubblewrap": []}[kind]
    return capabilities(without).layers.namespaces == kind


def inside(
    layers: Layers,
    code: str,
    *,
    env: dict[str, str] | None = None,
    held: tuple[int, ...] = (),
    cgroup: tuple[int, ...] = (),
    change: dict[str, Any] | None = None,
) -> Ended:
    """Run `code` under this Python in these layers; `change`: keys of the policy."""
    with ExitStack() as stack:
        scratch = view.SCRATCH
        if not layers.namespaces:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            Path(folder).chmod(0o711)
            scratch = f"{folder}/run"
        uid = None
        if layers.uid == "own" and layers.namespaces:
            uid = stack.enter_context(uids.lease())
        entries = view.build_view(Layout(view.own_python()), users=policy.users())
        told = policy.check_policy(layers, scratch=scratch, entries=entries, uid=uid)
        told.update(change or {})
        output = stack.enter_context(tempfile.TemporaryFile())
        errors = stack.enter_context(tempfile.TemporaryFile())
        started = box.start(
            told,
            [view.own_python(), "-I", "-S", "-c", PREAMBLE + textwrap.dedent(code)],
            entries,
            env=env or {},
            stdout=output.fileno(),
            stderr=errors.fileno(),
            given=box.Given(held=held, cgroup=cgroup),
        )
        report = final_packet(started)
        output.seek(0)
        errors.seek(0)
        lines = output.read().splitlines()
        said = json.loads(lines[-1]) if lines else {}
        return Ended(said, errors.read().decode(), report)


def as_docker_does(*also: str) -> list[str]:
    """Start of a command that runs as under Docker's default filter.

    Without capabilities, and without the calls that make namespaces and mounts; `also`:
    "landlock".
    """
    code = f"""\
import errno, os, sys
sys.path.insert(0, {str(view.JAIL)!r})
import kernel, seccomp
refused = ["unshare", "setns", "mount", "umount2", "pivot_root", "fsopen", "fsmount",
           "move_mount", "open_tree"]
code = {{n: [seccomp.refuse(errno.EPERM)] for n in refused}}
for name in ("clone", "clone3"):
    code[name] = dict(seccomp.rules(kernel.MACHINE, "jail"))[
        seccomp.number_of(name, kernel.MACHINE)]
rules = [(seccomp.number_of(name, kernel.MACHINE), lines)
         for name, lines in code.items()]
if "landlock" in {also!r}:
    rules += [(n, [seccomp.refuse(errno.ENOSYS)]) for n in (444, 445, 446)]
kernel.bound_capabilities()
kernel.drop_capabilities()
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
seccomp.load(seccomp.assemble(rules))
os.execv(sys.argv[1], sys.argv[1:])
"""
    return [sys.executable, "-c", code]


def run(
    command: list[str], *, cwd: Path = ROOT, **options: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=600, **options
    )


def processes_with(mark: str) -> list[int]:
    """Processes of this machine that have `mark` in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
